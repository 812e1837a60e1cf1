"""Killed processes, damaged caches, full disks and lying origins: slow or an error, never a wrong byte."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie
from headrace.testing.processes import freeze

from .harness import DEADLINE_S, Shell, bytes_of, drop_page_cache, files_below, tree_of
from .servers import Bucket
from .survival import registered, wait_until


def content_of(files: int, size: int) -> dict[str, bytes]:
    return {f"d{i % 4}/f{i:03}": random.Random(i).randbytes(size + 13 * i) for i in range(files)}


def read_leniently(mountpoint: Path) -> dict[str, bytes]:
    """What can be read; a file that fails is left out."""
    found = {}
    for path in sorted(mountpoint.rglob("*")):
        try:
            if path.is_file():
                found[str(path.relative_to(mountpoint))] = path.read_bytes()
        except OSError:
            continue
    return found


@pytest.mark.parametrize("answers", [0, 7, 70])
def test_kill_9_during_a_fill_leaves_a_cache_that_serves_nothing_wrong(
    shell: Shell, liar: FaultyOrigin, lying_bucket: Bucket, tmp_path: Path, answers: int
) -> None:
    content = content_of(120, 300_000)
    lying_bucket.fill(content)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    held = liar.add(Fault(Lie.HELD, r"/d\d/f", after=answers))
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        reader = threading.Thread(target=read_leniently, args=(mountpoint,))
        reader.start()
        # Whatever it does with the answers before, the fill cannot end: the origin keeps the rest to itself.
        wait_until(lambda: held.done, lambda: liar.requests)
        # The supervisor first: otherwise another process would go on. This one shall not, and does not take its place.
        entry = registered(shell, mountpoint)
        freeze(entry.pid)
        os.kill(entry.supervisor_pid, signal.SIGKILL)
        os.kill(entry.pid, signal.SIGKILL)
        reader.join(DEADLINE_S)
        assert not reader.is_alive(), "a reader hangs after the mount's process died"
    liar.clear()
    held.released.set()
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        assert tree_of(mountpoint) == content
        assert shell.run("verify", mountpoint).code == 0


@pytest.mark.parametrize("remounted", [True, False], ids=["after a restart", "while mounted"])
def test_flipped_bits_anywhere_in_the_cache_are_never_served(
    shell, bucket, tmp_path, remounted: bool
) -> None:
    content = content_of(20, 200_000)
    bucket.fill(content)
    arguments = {"cache": tmp_path / "cache", "options": bucket.options}
    chance = random.Random(5)
    with shell.mounted(bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        shell.must("warm", mountpoint)
        if not remounted:
            flip_bits(tmp_path / "cache", chance, data_only=True)
            drop_page_cache()
            assert tree_of(mountpoint) == content
            assert shell.status(mountpoint)["corrupt_blocks"] > 0
    for _ in range(3):
        flip_bits(tmp_path / "cache", chance, data_only=False)
        with shell.mounted(bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
            assert tree_of(mountpoint) == content


def flip_bits(cache: Path, chance: random.Random, *, data_only: bool) -> None:
    """One bit in every regular file of the cache, at a random place."""
    for path in files_below(cache):
        if path.name.endswith(".lock") or (data_only and "data" not in path.relative_to(cache).parts):
            continue
        size = len(bytes_of(path))
        if size == 0:
            continue
        with path.open("r+b") as file:
            file.seek(chance.randrange(size))
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ (1 << chance.randrange(8))]))


def test_truncated_and_foreign_files_in_the_cache_do_no_harm(shell: Shell, bucket, tmp_path: Path) -> None:
    content = content_of(12, 150_000)
    bucket.fill(content)
    arguments = {"cache": tmp_path / "cache", "options": bucket.options}
    with shell.mounted(bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        shell.must("warm", mountpoint)
    for number, path in enumerate(sorted(p for p in (tmp_path / "cache").rglob("*") if p.is_file())):
        if number % 2:
            os.truncate(path, path.stat().st_size // 2)
    (tmp_path / "cache" / "stranger").write_bytes(b"not ours")
    with shell.mounted(bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        assert tree_of(mountpoint) == content
    assert (tmp_path / "cache" / "stranger").exists(), "a stranger's file is not ours to remove"


@pytest.mark.root
def test_a_full_disk_costs_caching_never_the_read(shell: Shell, bucket, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for a small tmpfs")
    content = content_of(40, 400_000)
    bucket.fill(content)
    cache = tmp_path / "small"
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "tmpfs", cache], check=True)
    try:
        with shell.mounted(
            bucket.uri, tmp_path / "mnt", cache=cache, quota="10Mi", options=bucket.options
        ) as mountpoint:
            room = shutil.disk_usage(cache).free
            (cache / "ballast").write_bytes(b"\0" * (room - 300_000))
            assert tree_of(mountpoint) == content
    finally:
        subprocess.run(["umount", "-l", cache], check=True)


def test_two_mounts_may_not_share_a_cache_folder(shell: Shell, bucket, tmp_path: Path) -> None:
    bucket.fill({"a": b"1"})
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        (tmp_path / "second").mkdir()
        words = [word for name, value in bucket.options.items() for word in ("--option", f"{name}={value}")]
        outcome = shell.run(
            "mount", bucket.uri, tmp_path / "second", "--cache", f"{tmp_path / 'cache'}:1Gi", *words
        )
        assert outcome.code != 0
        assert str(shell.status(mountpoint)["pid"]) in outcome.stderr
        assert (mountpoint / "a").read_bytes() == b"1"
