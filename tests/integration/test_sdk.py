"""The SDK over a real bucket: fsspec's own contract, batch reads, and data-loader workers however they start."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

import headrace


@pytest.fixture
def content() -> dict[str, bytes]:
    small = {f"class-{i % 5}/image-{i:03}.jpg": random.Random(i).randbytes(30_000 + i) for i in range(50)}
    return small | {"shards/large.tar": random.Random(77).randbytes(11_000_000)}


@pytest.fixture
def dataset(bucket, content, tmp_path: Path):
    bucket.fill(content)
    with headrace.open_dataset(
        bucket.uri, cache=f"{tmp_path / 'cache'}:1Gi", options=bucket.options_with_keys
    ) as opened:
        yield opened


def test_files_are_listed_and_read(dataset, content) -> None:
    assert sorted(dataset.files()) == sorted(content)
    for path, expected in content.items():
        with dataset.open(path) as file:
            assert file.read() == expected


def test_a_batch_lands_in_the_callers_memory(dataset, content) -> None:
    paths = sorted(content)
    buffers = [bytearray(len(content[path]) + 10) for path in paths]
    views = dataset.read_many(paths, out=buffers)
    assert [bytes(view) for view in views] == [content[path] for path in paths]
    assert [view.obj for view in views] == buffers
    assert [bytes(buffer[-10:]) for buffer in buffers] == [bytes(10)] * len(paths), (
        "nothing beyond a file's end"
    )


def test_a_missing_file_in_a_batch_is_named(dataset) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.bin"):
        dataset.read_many(["absent.bin"])


def read_in_worker(argument) -> tuple[int, str]:
    dataset, path = argument
    with dataset.open(path) as file:
        data = file.read()
    return len(data), dataset.role


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_data_loader_workers_read_through_the_one_owner(dataset, content, method: str, monkeypatch) -> None:
    # A worker that does not inherit our modules imports this one by its name.
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    assert dataset.role == "owner"
    paths = sorted(content)
    with multiprocessing.get_context(method).Pool(3) as pool:
        results = pool.map(read_in_worker, [(dataset, path) for path in paths])
    assert [length for length, _ in results] == [len(content[path]) for path in paths]
    assert {role for _, role in results} == {"attached"}


def test_a_dataset_survives_pickling(dataset, content) -> None:
    again = pickle.loads(pickle.dumps(dataset))
    path = sorted(content)[0]
    assert again.open(path).read() == content[path]


def test_prefetch_and_warm_bring_bytes_in(dataset, content) -> None:
    dataset.prefetch(sorted(content))
    total = sum(map(len, content.values()))
    assert dataset.warm().complete
    status = dataset.status()
    assert (status.cached_bytes, status.cached_files) == (total, len(content))
    assert status.reads.origin_bytes == total, "prefetch and warm share their fetches"


def test_fsspec_reads_through_the_cache(bucket, content, tmp_path: Path) -> None:
    import fsspec

    bucket.fill(content)
    options = {
        "origin": bucket.uri,
        "cache": f"{tmp_path / 'cache'}:1Gi",
        "options": bucket.options_with_keys,
    }
    filesystem = fsspec.filesystem("headrace", **options)
    path = sorted(content)[0]
    assert filesystem.cat_file(path) == content[path]
    assert (
        filesystem.cat_file("shards/large.tar", start=4_000_000, end=4_500_000)
        == content["shards/large.tar"][4_000_000:4_500_000]
    )
    assert filesystem.info(path)["size"] == len(content[path])
    assert set(filesystem.find("")) == set(content)
    with pytest.raises(OSError, match="read-only"):
        filesystem.rm(path)


def test_importing_headrace_is_light() -> None:
    program = (
        "import sys, threading, headrace\n"
        "assert threading.active_count() == 1\n"
        "heavy = {'torch', 'tensorflow', 'kubernetes_asyncio', 'headrace._native', 'fsspec'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
