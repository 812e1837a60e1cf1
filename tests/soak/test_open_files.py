"""Ten thousand files open at once, on a node that allows no process more than twenty thousand descriptors."""

from __future__ import annotations

import contextlib
import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.harness import Shell
from tests.integration.survival import shell_without_server

FILES = 10_000
HARD_LIMIT = 20_000
SIZE = 70_000
"""More than a block."""


@pytest.fixture
def hard_limit() -> Iterator[None]:
    """For this process and those that it starts."""
    if os.geteuid() != 0:
        pytest.skip("only root may raise the hard limit again; run as root")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (HARD_LIMIT, HARD_LIMIT))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def content(number: int) -> bytes:
    return random.Random(number).randbytes(SIZE)


def origin_bytes(shell: Shell, mountpoint: Path) -> int:
    return int(shell.status(mountpoint)["reads"]["origin_bytes"])


@pytest.mark.usefixtures("hard_limit")
@pytest.mark.parametrize("mode", ["passthrough", "classic"])
def test_ten_thousand_cached_files_are_open_at_once_and_none_is_read_from_the_origin(
    tmp_path: Path, mode: str
) -> None:
    source, shell = tmp_path / "source", shell_without_server(tmp_path / "home")
    source.mkdir()
    for number in range(FILES):
        (source / f"{number:05}").write_bytes(content(number))
    words = ("--mode", mode, "--block-size", "64Ki")
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=tmp_path / "cache") as mountpoint:
        shell.must("warm", mountpoint)
    # The next process has no file of the cache open yet.
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=tmp_path / "cache") as mountpoint:
        before = origin_bytes(shell, mountpoint)
        with contextlib.ExitStack() as held:
            opened = [
                held.enter_context((mountpoint / f"{number:05}").open("rb", buffering=0))
                for number in range(FILES)
            ]
            for number, file in enumerate(opened):
                assert file.read() == content(number), f"{number:05} has wrong bytes"
            # Again, with all of them open: by now each was read once, and none may have given way.
            for number in random.Random(mode).sample(range(FILES), 1000):
                os.posix_fadvise(opened[number].fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                assert os.pread(opened[number].fileno(), SIZE, 0) == content(number)
        assert origin_bytes(shell, mountpoint) == before
