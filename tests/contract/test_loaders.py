"""PyTorch and tf.data over the real engine: forked and spawned workers, each byte of the origin once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace

COUNT, SIZE = 24, 150_000


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """The content of each file at the origin."""
    contents = {f"{number:02}.bin": os.urandom(SIZE) for number in range(COUNT)}
    (tmp_path / "images").mkdir()
    for name, content in contents.items():
        (tmp_path / "images" / name).write_bytes(content)
    return contents


@pytest.fixture
def dataset(files: dict[str, bytes], tmp_path: Path) -> Iterator[headrace.Dataset]:
    with headrace.open_dataset(tmp_path / "images", cache=f"{tmp_path}/cache:1Gi") as dataset:
        yield dataset


def digest(path: str, content: memoryview) -> tuple[str, str]:
    return path, hashlib.sha256(content).hexdigest()


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_torch_workers_read_right_bytes_once(
    dataset: headrace.Dataset, files: dict[str, bytes], method: str
) -> None:
    torch_data = pytest.importorskip("torch.utils.data", reason="needs python3-torch (make setup)")
    from headrace.client.torch import FileDataset, PrefetchSampler

    samples = FileDataset(dataset, transform=digest)
    sampler = PrefetchSampler(torch_data.RandomSampler(samples), samples)
    loader = torch_data.DataLoader(
        samples, batch_size=None, sampler=sampler, num_workers=2, multiprocessing_context=method
    )
    for _ in range(2):
        assert dict(loader) == digests(files)
    assert dataset.status().reads.origin_bytes == COUNT * SIZE


@pytest.mark.filterwarnings("ignore")
def test_tensorflow_reads_right_bytes_once(dataset: headrace.Dataset, files: dict[str, bytes]) -> None:
    pytest.importorskip("tensorflow", reason="needs tensorflow-cpu (make setup)")
    from headrace.client.tensorflow import file_source

    for _ in range(2):
        found = {
            path.decode(): content for path, content in file_source(dataset, shuffle=True).as_numpy_iterator()
        }
        assert found == files
    assert dataset.status().reads.origin_bytes == COUNT * SIZE


def test_numpy_memory_is_filled_in_place(dataset: headrace.Dataset, files: dict[str, bytes]) -> None:
    import numpy

    pixels = numpy.zeros((COUNT, SIZE), dtype=numpy.uint8)
    dataset.read_many(sorted(files), out=pixels)
    assert all(pixels[number].tobytes() == files[name] for number, name in enumerate(sorted(files)))
