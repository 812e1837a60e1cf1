"""A process that loads a model's weights as its users' programs do, unmodified: to the last byte of the last tensor.

Started by `weights`: it imports what it needs, says so, waits for the word, loads, and tells how long that took. Each
tensor is copied into memory that is there already, as it is copied to a device.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

POLL_INTERVAL_S = 0.002
LENGTH_OF_HEADER = struct.Struct("<Q")
"""What a file of safetensors begins with (https://github.com/huggingface/safetensors#format)."""


class Device:
    """Memory of the size of the largest tensor, which all are copied into, one after another."""

    def __init__(self) -> None:
        self.copied_bytes = 0
        self._memory = torch.empty(0, dtype=torch.uint8)

    def copy(self, tensor: torch.Tensor) -> None:
        size = tensor.numel() * tensor.element_size()
        if self._memory.numel() < size:
            self._memory = torch.zeros(size, dtype=torch.uint8)
        self._memory[:size].view(tensor.dtype).view(tensor.shape).copy_(tensor)
        self.copied_bytes += size


def safe_open(names: Sequence[str]) -> Iterator[torch.Tensor]:
    """The Rust loader, file by file and name by name: as Transformers and vLLM ask it."""
    from safetensors import safe_open as opened  # noqa: PLC0415 - each loader needs packages of its own

    for name in names:
        with opened(name, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118 - it is no mapping
                yield file.get_tensor(key)


def load(names: Sequence[str]) -> Iterator[torch.Tensor]:
    """The Python loader: the whole file by one read, then its tensors."""
    from safetensors.torch import load as loaded  # noqa: PLC0415

    for name in names:
        yield from loaded(Path(name).read_bytes()).values()


def torch_mmap(names: Sequence[str]) -> Iterator[torch.Tensor]:
    """As `torch.load(mmap=True)` does: a private map of the file, and tensors that lie in it."""
    for name in names:
        path = Path(name)
        mapped = torch.from_file(name, shared=False, size=path.stat().st_size, dtype=torch.uint8)
        with path.open("rb") as file:
            (length,) = LENGTH_OF_HEADER.unpack(file.read(LENGTH_OF_HEADER.size))
            header = json.loads(file.read(length))
        yield from _mapped_tensors(mapped[LENGTH_OF_HEADER.size + length :], header)


def fsspec_s3fs(names: Sequence[str]) -> Iterator[torch.Tensor]:
    """Straight from the bucket, by fsspec with the package s3fs: the whole object, then its tensors."""
    import fsspec  # noqa: PLC0415
    from safetensors.torch import load as loaded  # noqa: PLC0415

    # The name of its argument, and no key: the keys are in the environment.
    options: Mapping[str, Any] = {"client_kwargs": {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]}}
    for name in names:
        yield from loaded(fsspec.filesystem("s3", **options).cat_file(name)).values()


def runai_streamer(names: Sequence[str]) -> Iterator[torch.Tensor]:
    """Straight from the bucket, by Run:ai's model streamer, all files at once."""
    from runai_model_streamer import SafetensorsStreamer  # noqa: PLC0415

    with SafetensorsStreamer() as streamer:
        streamer.stream_files(list(names))
        for _, tensor in streamer.get_tensors():
            yield tensor


LOADERS: Mapping[str, Callable[[Sequence[str]], Iterator[torch.Tensor]]] = {
    "safe-open": safe_open,
    "load": load,
    "torch-mmap": torch_mmap,
    "fsspec-s3fs": fsspec_s3fs,
    "runai-streamer": runai_streamer,
}
PACKAGES: Mapping[str, Sequence[str]] = {
    "safe-open": ["safetensors"],
    "load": ["safetensors.torch"],
    "torch-mmap": [],
    "fsspec-s3fs": ["fsspec", "s3fs", "safetensors.torch"],
    "runai-streamer": ["runai_model_streamer"],
}


def part_of(tensor: torch.Tensor, number: int, rank: int, ranks: int) -> torch.Tensor:
    """What one rank of a tensor-parallel group keeps: rows of one matrix, columns of the next; all of a vector."""
    if ranks == 1 or tensor.dim() < 2:
        return tensor
    dimension = number % 2
    length = tensor.shape[dimension] // ranks
    return tensor.narrow(dimension, rank * length, length)


def _mapped_tensors(data: torch.Tensor, header: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F16":
            raise ValueError(f"{name} is of type {entry['dtype']}; this loader knows F16")
        start, end = entry["data_offsets"]
        shape = entry["shape"]
        assert end - start == 2 * math.prod(shape)
        yield data[start:end].view(torch.float16).view(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("loader", choices=list(LOADERS))
    parser.add_argument("go", type=Path, help="the file whose existence is the word to begin")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    chosen = parser.parse_args()
    for package in PACKAGES[chosen.loader]:
        __import__(package)
    device = Device()
    device.copy(torch.ones(1))
    print("ready", flush=True)
    while not chosen.go.exists():
        time.sleep(POLL_INTERVAL_S)
    device.copied_bytes, begun = 0, time.monotonic()
    for number, tensor in enumerate(LOADERS[chosen.loader](chosen.names)):
        device.copy(part_of(tensor, number, chosen.rank, chosen.ranks))
    print(json.dumps({"begun": begun, "ended": time.monotonic(), "copied_bytes": device.copied_bytes}))


if __name__ == "__main__":
    main()
