"""Every mistake of a user: one line that says what, on what, what next; in seconds; the documented exit code."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from .harness import Outcome, Shell

# The slowest is an endpoint that refuses, which is tried again for some seconds: ten times that.
SECONDS = 150


def refused(shell: Shell, *arguments: str | Path) -> Outcome:
    start = time.monotonic()
    outcome = shell.run(*arguments)
    took_s = time.monotonic() - start
    assert took_s < SECONDS, f"an error must not take {took_s:.1f} s: {outcome.talk}"
    assert outcome.code != 0, outcome.talk
    assert "Traceback" not in outcome.talk
    lines = [line for line in outcome.stderr.splitlines() if line.strip()]
    assert lines, "nothing was said"
    assert any(line.startswith("error:") for line in lines), outcome.stderr
    return outcome


@pytest.fixture
def mnt(tmp_path: Path) -> Path:
    folder = tmp_path / "mnt"
    folder.mkdir()
    return folder


def options_of(bucket) -> list[str]:
    return [word for name, value in bucket.options.items() for word in ("--option", f"{name}={value}")]


def test_unknown_scheme(shell: Shell, mnt: Path) -> None:
    assert "s4" in refused(shell, "mount", "s4://bucket/x", mnt).stderr


def test_bucket_that_does_not_exist(shell: Shell, bucket, mnt: Path, tmp_path: Path) -> None:
    outcome = refused(
        shell, "mount", "s3://no-such-bucket/x", mnt, "--cache", f"{tmp_path}/c:1Gi", *options_of(bucket)
    )
    assert "no-such-bucket" in outcome.stderr


def test_wrong_secret_key(exposed_shell: Shell, bucket, mnt: Path, tmp_path: Path) -> None:
    bucket.fill({"a": b"1"})
    exposed_shell.environment["AWS_SECRET_ACCESS_KEY"] = "certainly-not-the-key"
    outcome = refused(
        exposed_shell, "mount", bucket.uri, mnt, "--cache", f"{tmp_path}/c:1Gi", *options_of(bucket)
    )
    assert "certainly-not-the-key" not in outcome.talk
    assert "hint:" in outcome.stderr


def test_unreachable_endpoint(shell: Shell, bucket, mnt: Path, tmp_path: Path) -> None:
    words = ["--option", "endpoint=http://127.0.0.1:9", "--option", "path-style=true"]
    outcome = refused(shell, "mount", bucket.uri, mnt, "--cache", f"{tmp_path}/c:1Gi", *words)
    assert "127.0.0.1:9" in outcome.stderr


def test_mountpoint_missing(shell: Shell, tmp_path: Path) -> None:
    assert str(tmp_path / "absent") in refused(shell, "mount", tmp_path, tmp_path / "absent").stderr


def test_mountpoint_not_empty(shell: Shell, mnt: Path, tmp_path: Path) -> None:
    (mnt / "something").touch()
    assert "not empty" in refused(shell, "mount", tmp_path, mnt, "--cache", f"{tmp_path}/c:1Gi").stderr


def test_mountpoint_is_a_file(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert (
        "not a folder"
        in refused(shell, "mount", tmp_path, tmp_path / "file", "--cache", f"{tmp_path}/c:1Gi").stderr
    )


def test_already_mounted(shell: Shell, bucket, tmp_path: Path) -> None:
    bucket.fill({"a": b"1"})
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        outcome = refused(
            shell, "mount", bucket.uri, mountpoint, "--cache", f"{tmp_path}/c2:1Gi", *options_of(bucket)
        )
        assert "already" in outcome.stderr


def test_source_folder_missing(shell: Shell, mnt: Path, tmp_path: Path) -> None:
    assert (
        "nowhere" in refused(shell, "mount", tmp_path / "nowhere", mnt, "--cache", f"{tmp_path}/c:1Gi").stderr
    )


def test_quota_larger_than_the_disk(shell: Shell, mnt: Path, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").touch()
    outcome = refused(shell, "mount", tmp_path / "source", mnt, "--cache", f"{tmp_path}/c:900Ti")
    assert "900" in outcome.stderr


def test_quota_that_is_no_size(shell: Shell, mnt: Path, tmp_path: Path) -> None:
    assert "lots" in refused(shell, "mount", tmp_path, mnt, "--cache", f"{tmp_path}/c:lots").stderr


def test_cache_folder_that_cannot_be_made(shell: Shell, mnt: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").touch()
    refused(shell, "mount", tmp_path / "source", mnt, "--cache", f"{tmp_path}/file/cache:1Gi")


def test_unknown_option_names_the_nearest(shell: Shell, mnt: Path) -> None:
    outcome = refused(shell, "mount", "s3://bucket/x", mnt, "--option", "fs.s3.endpont=http://127.0.0.1:9")
    assert "fs.s3.endpoint" in outcome.stderr


def test_unmount_of_what_is_not_mounted(shell: Shell, mnt: Path) -> None:
    assert str(mnt) in refused(shell, "unmount", mnt).stderr


def test_status_of_what_is_not_mounted(shell: Shell, mnt: Path) -> None:
    refused(shell, "status", mnt)


def test_memory_that_is_too_little_is_told_in_the_words_in_which_it_was_given(
    shell: Shell, mnt: Path, tmp_path: Path
) -> None:
    outcome = refused(shell, "mount", tmp_path, mnt, "--cache", "none", "--memory", "16Mi")
    assert "setting 'memory': '16Mi' is too little" in outcome.talk
    assert "64Mi is the least" in outcome.talk
