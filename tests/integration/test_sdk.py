"""The SDK over a real bucket: fsspec's own contract, batch reads, and data-loader workers however they start."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

import headrace
from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie

from .harness import DEADLINE_S
from .survival import (
    kill_process,
    registered,
    shell_without_server,
    wait_until,
    wait_until_ended,
    wait_until_restarted,
)


@pytest.fixture
def content() -> dict[str, bytes]:
    small = {f"class-{i % 5}/image-{i:03}.jpg": random.Random(i).randbytes(30_000 + i) for i in range(50)}
    return small | {"shards/large.tar": random.Random(77).randbytes(11_000_000)}


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is opened by this process remembers nothing in the folders of the machine."""
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))


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


OPENED = """
import pickle, sys
opened = pickle.load(sys.stdin.buffer)
print("opening", flush=True)
with opened() as dataset:
    print(dataset.role, dataset.size("a"), flush=True)
"""


def test_all_who_open_a_dataset_while_it_is_listed_share_it(
    liar: FaultyOrigin, lying_bucket, tmp_path: Path
) -> None:
    lying_bucket.fill({"a": b"content"})
    listing = liar.add(Fault(Lie.HELD, "list-type=2"))
    opened = functools.partial(
        headrace.open_dataset,
        lying_bucket.uri,
        cache=f"{tmp_path / 'cache'}:1Gi",
        options=lying_bucket.options_with_keys,
    )
    with ThreadPoolExecutor() as pool:
        try:
            first = pool.submit(opened)
            wait_until(lambda: listing.done == 1, lambda: liar.requests)
            others = [pool.submit(opened) for _ in range(3)]
            processes = [opening_process(opened) for _ in range(2)]
            # Whoever does not wait has failed by now.
            assert wait(others, timeout=0.3).done == set()
            processes[0].send_signal(signal.SIGINT)
            assert b"KeyboardInterrupt" in processes[0].communicate(timeout=DEADLINE_S)[1]
        finally:
            listing.released.set()
        datasets = [future.result(DEADLINE_S) for future in (first, *others)]
        assert processes[1].communicate(timeout=DEADLINE_S)[0].decode() == "attached 7\n"
    assert sorted(dataset.role for dataset in datasets) == ["attached"] * 3 + ["owner"]
    assert [dataset.read("a") for dataset in datasets] == [b"content"] * 4
    for dataset in sorted(datasets, key=lambda dataset: dataset.role):
        dataset.close()


def opening_process(opened: functools.partial) -> subprocess.Popen:
    """A process that is about to open the dataset."""
    process = subprocess.Popen(
        [sys.executable, "-c", OPENED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(pickle.dumps(opened))
    process.stdin.flush()
    assert process.stdout.readline() == b"opening\n"
    return process


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
    assert set(filesystem.find("")) == {f"/{path}" for path in content}
    with pytest.raises(OSError, match="read-only"):
        filesystem.rm(path)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of fsspec's own caches
def test_names_of_mounted_datasets_open_again_behind_the_protocol(
    bucket, tmp_path: Path, monkeypatch
) -> None:
    import fsspec

    shell = shell_without_server(tmp_path / "home")
    shell.environment |= bucket.server.credentials.environment() | {"AWS_REGION": bucket.server.region}
    monkeypatch.setenv("HEADRACE_RUNTIME_DIR", str(tmp_path / "home" / "run"))
    paths = ["train.bin", "sub/train.bin", "data/train.bin", "data/data/a#b %2F.bin"]
    content = {path: path.encode() for path in paths}
    bucket.fill(content)
    everything = fsspec.filesystem("headrace")
    for turn in range(2):  # the second mount is found by a file system that knew the first
        with shell.mounted(bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options):
            assert everything.ls("", detail=False) == ["data"]
            assert everything.find("") == everything.find("data") == sorted(f"data/{path}" for path in paths)
            assert everything.glob("headrace://data/sub/*.bin") == ["data/sub/train.bin"]
            for options in ({}, {"mountpoint": str(tmp_path / "mnt")}, {"name": "data"}):
                listed = fsspec.filesystem("headrace", **options).find("data" if not options else "")
                assert len(listed) == len(paths)
                for name in listed:
                    with fsspec.open(f"headrace://{name}", **options) as file:
                        assert file.read() == content[name.removeprefix("/" if options else "data/")]
            below = {"mountpoint": str(tmp_path / "mnt" / "data")}
            assert fsspec.filesystem("headrace", **below).find("") == ["/data/a#b %2F.bin", "/train.bin"]
            ranges = everything.cat_ranges(["data/train.bin", "data/data/train.bin"], 0, [3, 4])
            assert ranges == [b"tra", b"data"], turn


def test_importing_headrace_is_light() -> None:
    program = (
        "import sys, threading, headrace\n"
        "assert threading.active_count() == 1\n"
        "heavy = {'torch', 'tensorflow', 'kubernetes_asyncio', 'headrace._native', 'fsspec'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def mounted(bucket, content, tmp_path: Path, monkeypatch):
    """A dataset read through a mount, with a shell that sees the mount."""
    shell = shell_without_server(tmp_path / "home")
    shell.environment |= bucket.server.credentials.environment() | {"AWS_REGION": bucket.server.region}
    monkeypatch.setenv("HEADRACE_RUNTIME_DIR", str(tmp_path / "home" / "run"))
    bucket.fill(content)
    with (
        shell.mounted(
            bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
        ) as mountpoint,
        headrace.open_dataset(mountpoint) as opened,
    ):
        assert opened.role == "attached"
        yield shell, mountpoint, opened


def kill_and_wait(shell, mountpoint: Path) -> int:
    """Kills the mount process, and waits until it is gone; the restarts before."""
    pid = registered(shell, mountpoint).pid
    beyond = kill_process(shell, mountpoint)
    wait_until_ended(pid)
    return beyond


def test_a_killed_mount_process_is_not_noticed_between_reads(mounted, content) -> None:
    shell, mountpoint, dataset = mounted
    paths = sorted(content)
    with dataset.open("shards/large.tar") as large:
        for beyond in range(2):
            # Cold at first; then whole files lie in the cache and are lent, and connections wait in the pool.
            assert [bytes(view) for view in dataset.read_many(paths)] == [content[path] for path in paths]
            dataset.warm()
            assert large.pread(5_000_000, 1_000_000) == content["shards/large.tar"][1_000_000:6_000_000]
            assert kill_and_wait(shell, mountpoint) == beyond
            if beyond:
                dataset.prefetch(paths)
            else:
                assert dataset.read(paths[0]) == content[paths[0]]
            assert large.pread(5_000_000, 6_000_000) == content["shards/large.tar"][6_000_000:]
            assert [bytes(view) for view in dataset.read_many(paths)] == [content[path] for path in paths]
            wait_until_restarted(shell, mountpoint, beyond=beyond)
    assert dataset.status().pid == registered(shell, mountpoint).pid
    assert sorted(dataset.files()) == paths


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_workers_that_start_while_the_mount_has_no_process_wait_for_the_next(mounted, content) -> None:
    shell, mountpoint, dataset = mounted
    path = sorted(content)[0]
    kill_and_wait(shell, mountpoint)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(read_in_worker, [(dataset, path), (dataset, path)])
    assert results == [(len(content[path]), "attached")] * 2


def test_a_read_that_waits_for_the_origin_is_answered_by_the_next_mount_process(
    liar: FaultyOrigin, lying_bucket, tmp_path: Path, monkeypatch
) -> None:
    shell = shell_without_server(tmp_path / "home")
    shell.environment |= lying_bucket.server.credentials.environment()
    shell.environment["AWS_REGION"] = lying_bucket.server.region
    monkeypatch.setenv("HEADRACE_RUNTIME_DIR", str(tmp_path / "home" / "run"))
    large = random.Random(1).randbytes(24 << 20)
    many = {f"many/{number:02}": random.Random(number).randbytes(50_000) for number in range(20)}
    lying_bucket.fill({"large": large} | many)
    with (
        shell.mounted(
            lying_bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=lying_bucket.options
        ) as mountpoint,
        headrace.open_dataset(mountpoint) as dataset,
        ThreadPoolExecutor() as pool,
    ):
        faults = [liar.add(Fault(Lie.HELD, "/large", after=2)), liar.add(Fault(Lie.HELD, "/many/07"))]
        reads = [
            pool.submit(dataset.read, "large"),
            pool.submit(dataset.read_many, sorted(many)),
        ]
        wait_until(lambda: all(fault.done for fault in faults), lambda: liar.requests)
        asked = [fault.done for fault in faults]
        wait_until_restarted(shell, mountpoint, beyond=kill_process(shell, mountpoint))
        wait_until(
            lambda: all(fault.done > before for fault, before in zip(faults, asked, strict=True)),
            lambda: (asked, [fault.done for fault in faults], reads),
        )
        for fault in faults:
            fault.released.set()
        assert reads[0].result(DEADLINE_S) == large
        assert [bytes(view) for view in reads[1].result(DEADLINE_S)] == [many[path] for path in sorted(many)]


def test_an_open_file_keeps_its_version_when_names_move_on(dataset, content, bucket) -> None:
    path = sorted(content)[0]
    changed = random.Random(5).randbytes(len(content[path]))
    with dataset.open(path) as before:
        assert before.read(1000) == content[path][:1000]
        bucket.fill({path: changed})
        dataset.refresh()
        assert before.readall() == content[path][1000:]
        with dataset.open(path) as after:
            assert after.readall() == changed


def test_a_mount_that_is_taken_off_is_told_at_once(mounted, content) -> None:
    shell, mountpoint, dataset = mounted
    path = sorted(content)[0]
    assert dataset.read(path) == content[path]
    shell.must("unmount", mountpoint)
    with pytest.raises(headrace.HeadraceError, match="has ended"):
        dataset.read(path)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_what_workers_read_from_files_on_loan_is_counted(dataset, content) -> None:
    path = "shards/large.tar"
    dataset.warm([path])
    before = dataset.status().reads.hit_bytes

    def counted() -> int:
        return dataset.status().reads.hit_bytes - before

    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply(read_in_worker, [(dataset, path)])
        # What a worker has read since it last said so, less than a MiB, is not told when it is killed.
        wait_until(lambda: counted() > len(content[path]) - (1 << 20), counted)
    assert counted() <= len(content[path])
