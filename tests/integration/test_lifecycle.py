"""Warm, status, evict, refresh and verify: what the commands say is what is true."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
from pathlib import Path

import pytest

from headrace.testing.cluster.cluster_bed import wait_until

from .harness import Shell, mode_words, tree_of

TOLD_S = 20
"""Well within the minute after which the kernel asks anyway."""


@pytest.fixture
def content() -> dict[str, bytes]:
    return {f"part-{i:02}.bin": random.Random(i).randbytes(700_000 + i) for i in range(24)}


def test_warm_is_complete_and_the_origin_is_read_once(shell: Shell, bucket, content, tmp_path: Path) -> None:
    bucket.fill(content)
    total = sum(map(len, content.values()))
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        shell.must("warm", mountpoint)
        status = shell.status(mountpoint)
        assert status["cached_bytes"] == total
        assert status["reads"]["origin_bytes"] == total
        bucket.stop_server()
        assert tree_of(mountpoint) == content, "a warm mount needs no origin"


def test_a_restart_keeps_what_was_cached_and_works_without_the_origin(
    shell, bucket, content, tmp_path: Path
) -> None:
    bucket.fill(content)
    arguments = {"cache": tmp_path / "cache", "options": bucket.options}
    with shell.mounted(bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        shell.must("warm", mountpoint)
    bucket.stop_server()
    with shell.mounted(bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        assert tree_of(mountpoint) == content
        assert shell.status(mountpoint)["reads"]["origin_bytes"] == 0


def test_evict_gives_space_back_and_the_data_is_still_readable(
    shell, bucket, content, tmp_path: Path
) -> None:
    bucket.fill(content)
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        shell.must("warm", mountpoint)
        shell.must("evict", mountpoint, "--all")
        assert shell.status(mountpoint)["cached_bytes"] == 0
        assert tree_of(mountpoint) == content


def test_refresh_moves_readers_on_between_opens(shell: Shell, bucket, tmp_path: Path) -> None:
    bucket.fill({"same": b"one", "changed": b"old", "removed": b"gone soon"})
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        assert (mountpoint / "changed").read_bytes() == b"old"
        inode = (mountpoint / "same").stat().st_ino
        with (mountpoint / "changed").open("rb") as before:
            bucket.fill({"changed": b"newer", "added": b"fresh"})
            bucket.remove("removed")
            shell.must("refresh", mountpoint)
            assert tree_of(mountpoint) == {"same": b"one", "changed": b"newer", "added": b"fresh"}
            assert before.read() in (b"old", b""), "an open file stays at its version"
        assert (mountpoint / "same").stat().st_ino == inode


@pytest.mark.parametrize("mode", ["elide", "classic", "view"])
def test_a_changed_file_that_is_open_is_readable_as_long_as_promised(
    shell: Shell, tmp_path: Path, mode: str
) -> None:
    """For good; but where opens are elided, one that was not read for long only through four refreshes."""
    source = tmp_path / "source"
    names = ["read all the time", "read after four", "read after five"]

    def write(version: int) -> None:
        for name in names:
            (source / name).write_bytes(f"version {version}".encode() * 50_000)

    source.mkdir()
    write(0)
    words = mode_words(mode)
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=tmp_path / "cache") as mountpoint:
        shell.must("warm", mountpoint)
        with contextlib.ExitStack() as opened:
            always, after_four, after_five = (
                opened.enter_context((mountpoint / name).open("rb", buffering=0)).fileno() for name in names
            )
            for version in range(1, 6):
                write(version)
                shell.must("refresh", mountpoint)
                os.posix_fadvise(always, 0, 0, os.POSIX_FADV_DONTNEED)
                assert os.pread(always, 1 << 20, 0) == b"version 0" * 50_000
                if version == 4:
                    assert os.pread(after_four, 1 << 20, 0) == b"version 0" * 50_000
            if mode == "elide":
                with pytest.raises(OSError) as caught:
                    os.pread(after_five, 1 << 20, 0)
                assert caught.value.errno == errno.ESTALE
            else:
                assert os.pread(after_five, 1 << 20, 0) == b"version 0" * 50_000
        assert (mountpoint / names[0]).read_bytes() == b"version 5" * 50_000


def test_a_new_name_that_nobody_asked_for_is_listed_after_the_refresh(shell, bucket, tmp_path: Path) -> None:
    """Also at the top, which has no name that could be forgotten, and in a folder that somebody is in."""
    bucket.fill({"top": b"1", "folder/inner": b"2"})
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        inside = os.open(mountpoint / "folder", os.O_RDONLY)
        try:
            # Twice: the second listing is the kernel's own.
            for _ in range(2):
                assert (os.listdir(mountpoint), os.listdir(inside)) == (["folder", "top"], ["inner"])
            bucket.fill({"later": b"3"})
            shell.must("refresh", mountpoint)
            wait_until(lambda: "later" in os.listdir(mountpoint), "a file at the top", timeout_s=TOLD_S)
            bucket.fill({"folder/more": b"4"})
            shell.must("refresh", mountpoint)
            wait_until(lambda: "more" in os.listdir(inside), "a file in the folder", timeout_s=TOLD_S)
        finally:
            os.close(inside)


def test_an_object_that_changed_under_its_snapshot_is_stale_never_mixed(
    shell: Shell, bucket, tmp_path: Path
) -> None:
    bucket.fill({"file": b"a" * 100})
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        bucket.fill({"file": b"b" * 100})
        with pytest.raises(OSError) as caught:
            (mountpoint / "file").read_bytes()
        assert os.strerror(caught.value.errno) == "Stale file handle"
        shell.must("refresh", mountpoint)
        assert (mountpoint / "file").read_bytes() == b"b" * 100


def test_hostile_keys_are_left_out_counted_and_named(shell: Shell, bucket, tmp_path: Path) -> None:
    bucket.fill({"good/a": b"1", "good/b ": b"2", "good/#?%41+": b"3", "ünï/ç": b"4"})
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        assert tree_of(mountpoint) == {"good/a": b"1", "good/b ": b"2", "good/#?%41+": b"3", "ünï/ç": b"4"}
        assert shell.status(mountpoint)["snapshot"]["rejected_keys"] == 0


def test_ls_shows_what_the_mount_shows(shell: Shell, bucket, content, tmp_path: Path) -> None:
    bucket.fill(content)
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        listed = shell.must("ls", mountpoint).stdout.split()
        assert set(content) <= set(listed)


def test_metrics_speak_prometheus(shell: Shell, bucket, content, tmp_path: Path) -> None:
    bucket.fill(content)
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        tree_of(mountpoint)
        text = shell.must("metrics", mountpoint).stdout
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        assert int(values["headrace_origin_bytes_total"]) == sum(map(len, content.values()))
        assert text.rstrip().endswith("# EOF")


def test_warm_reports_what_did_not_fit(shell: Shell, bucket, content, tmp_path: Path) -> None:
    bucket.fill(content)
    quota = {"cache": tmp_path / "cache", "quota": "8Mi", "options": bucket.options}
    with shell.mounted(bucket.uri, tmp_path / "mnt", **quota) as mountpoint:
        outcome = shell.run("warm", mountpoint)
        assert outcome.code != 0, "not everything can be in"
        assert "fit" in outcome.stderr
        assert tree_of(mountpoint) == content
        used = sum(level["used_bytes"] for level in shell.status(mountpoint)["levels"])
        assert used <= 8 << 20


def test_status_lists_all_mounts_as_json(shell: Shell, bucket, content, tmp_path: Path) -> None:
    bucket.fill(content)
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        told = json.loads(shell.must("status", "--json").stdout)
        assert str(mountpoint) in json.dumps(told)
        assert str(mountpoint) in shell.must("status").stdout
