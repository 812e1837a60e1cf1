"""Readers tell the truth about what they read: bytes, errors and waits."""

from __future__ import annotations

import os
import time

import pytest

from headrace.testing.cluster import open_bed
from headrace.testing.cluster.content import Content, make_files
from headrace.testing.cluster.reading import Reading


@pytest.fixture
def node(tmp_path):
    with open_bed(1, base=tmp_path / "beds") as bed:
        yield bed.nodes[0]


@pytest.fixture
def content(tmp_path) -> Content:
    made = Content()
    made.put(tmp_path / "files", make_files(6, 300_000))
    return made


def test_a_reader_reads_everything_and_its_hashes_can_be_compared(node, content, tmp_path) -> None:
    reading = Reading(node, tmp_path / "files", "--seed", "3", "--passes", "2")
    summary = reading.finish()
    assert summary.files == 12
    assert summary.size_bytes == 2 * content.size_bytes
    assert sum(summary.waits.values()) > 12
    assert not content.wrong(reading.files())


def test_another_byte_and_a_missing_file_are_found(node, content, tmp_path) -> None:
    names = sorted(content.sizes)
    with (tmp_path / "files" / names[1]).open("r+b") as file:
        file.write(b"\0\0\0\0\0\0\0\0")
    reading = Reading(node, tmp_path / "files", only=[*names[:3], "train/none"])
    summary = reading.finish()
    assert summary.errors == 1
    wrong = content.wrong(reading.files())
    assert [(one.path, one.error) for one in wrong] == [(names[1], ""), ("train/none", "ENOENT")]


def test_the_longest_wait_is_seen(node, tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = Reading(node, tmp_path, only=["pipe"])
    with os.fdopen(open_for_a_reader(tmp_path / "pipe"), "wb") as pipe:
        # Long enough that a reader who is late for its wait still waits.
        time.sleep(2.0)
        pipe.write(b"late")
    assert reading.finish().longest_wait_s > 0.4


def open_for_a_reader(pipe) -> int:
    """The writing end, as soon as somebody has opened the other."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.01)


def test_a_reader_that_hangs_ends_with_its_patience(node, tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = Reading(node, tmp_path, only=["pipe"])
    with pytest.raises(TimeoutError, match="had read 0 files"):
        reading.finish(timeout_s=0.5)
