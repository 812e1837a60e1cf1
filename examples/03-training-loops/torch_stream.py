"""Reads with PyTorch as a stream: each file once an epoch, shared out over ranks and loader workers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from torch.utils.data import DataLoader

import headrace
from headrace.client.torch import IterableFileDataset


def size_of(path: str, content: memoryview) -> tuple[str, int]:
    """A sample: your decoder stands here."""
    return path, len(content)


def epochs_of(dataset: headrace.Dataset, count: int, *, workers: int = 2) -> Iterator[list[tuple[str, int]]]:
    """The samples of each epoch, as this rank gets them."""
    stream = IterableFileDataset(
        dataset,
        dataset.files("train/**"),
        transform=size_of,
        shuffle=True,
        seed=17,
        rank=int(os.environ.get("RANK", "0")),
        world_size=int(os.environ.get("WORLD_SIZE", "1")),
    )
    for epoch in range(count):
        stream.set_epoch(epoch)  # before the loader starts its workers, which take a copy of the stream
        yield list(DataLoader(stream, batch_size=None, num_workers=workers))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="s3://bucket/prefix, a folder, or a mountpoint of Headrace")
    parser.add_argument("--cache", help="FOLDER:QUOTA; leave it out for a mountpoint")
    arguments = parser.parse_args()
    with headrace.open_dataset(arguments.data, cache=arguments.cache) as dataset:
        for epoch, samples in enumerate(epochs_of(dataset, 3)):
            print(f"epoch {epoch}: {len(samples)} files, {sum(size for _, size in samples):,} bytes")


if __name__ == "__main__":
    main()
