"""What the kernel reads from cache files itself is in the figures, as an estimate that is named one."""

from __future__ import annotations

import json
import mmap
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from .harness import Shell, eventually
from .survival import shell_without_server

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="passthrough needs CAP_SYS_ADMIN")

SIZE = 300_000
OPENS = 4


def _reads(shell: Shell, mountpoint: Path) -> dict[str, Any]:
    return dict(shell.status(mountpoint)["reads"])


def _metric(text: str) -> int:
    (value,) = re.findall(r"^headrace_passthrough_estimated_bytes_total (\d+)$", text, re.MULTILINE)
    return int(value)


@pytest.mark.parametrize("mode", ["passthrough", "elide"])
def test_what_is_read_cold_is_no_hit_and_what_is_read_warm_is_one(tmp_path: Path, mode: str) -> None:
    source, shell = tmp_path / "source", shell_without_server(tmp_path / "home")
    source.mkdir()
    (source / "a").write_bytes(random.Random(0).randbytes(40 * SIZE))
    (source / "b").write_bytes(random.Random(1).randbytes(SIZE))
    ratios = []
    for _ in ("cold", "warm"):
        mounted = shell.mounted(str(source), tmp_path / "mnt", "--mode", mode, cache=tmp_path / "cache")
        with mounted as mountpoint:
            for name in ("a", "b"):
                (mountpoint / name).read_bytes()
            (told,) = json.loads(shell.must("status", "--json", mountpoint).stdout)
            ratios.append(told["engine"]["hit_ratio"])
            if ratios[-1] == 0.0:
                assert told["engine"]["reads"]["origin_bytes"] == 41 * SIZE
    assert ratios == [0.0, 1.0]


def test_a_warm_file_that_the_kernel_reads_moves_bytes_and_hit_ratio(tmp_path: Path) -> None:
    source, shell = tmp_path / "source", shell_without_server(tmp_path / "home")
    source.mkdir()
    content = random.Random(0).randbytes(SIZE)
    (source / "a").write_bytes(content)
    words = ("--mode", "passthrough")
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=tmp_path / "cache") as mountpoint:
        shell.must("warm", mountpoint)
        before = _reads(shell, mountpoint)
        assert before["passthrough_estimated_bytes"] == 0
        for _ in range(OPENS):
            assert (mountpoint / "a").read_bytes() == content
        after = _reads(shell, mountpoint)
        # None of these reads reached the process: the counters of what it handed out itself stand still.
        assert (after["hit_bytes"], after["miss_bytes"]) == (before["hit_bytes"], before["miss_bytes"])
        assert after["passthrough_estimated_bytes"] == OPENS * SIZE
        (told,) = json.loads(shell.must("status", "--json", mountpoint).stdout)
        assert told["engine"]["hit_ratio"] == 1.0
        assert _metric(shell.must("metrics", mountpoint).stdout) == OPENS * SIZE
        shown = shell.must("status", mountpoint).stdout
        assert "100.0% of about 1.14MiB read, 1.14MiB by the kernel itself (estimated); " in shown


def test_where_a_map_is_read_at_random_and_densely_its_pages_come_in_few_requests(tmp_path: Path) -> None:
    """As lmdb without read-ahead has it: MADV_RANDOM, on which the kernel asks for each page by itself."""
    source, shell = tmp_path / "source", shell_without_server(tmp_path / "home")
    source.mkdir()
    pages = 64  # a region
    content = random.Random(0).randbytes(pages * mmap.PAGESIZE)
    (source / "index").write_bytes(content)
    with shell.mounted(
        str(source), tmp_path / "mnt", "--mode", "elide", cache=tmp_path / "cache"
    ) as mountpoint:
        shell.must("warm", mountpoint)
        with (
            (mountpoint / "index").open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view,
        ):
            view.madvise(mmap.MADV_RANDOM)
            order = random.Random(1).sample(range(pages), pages)
            first = [view[page * mmap.PAGESIZE] for page in order[: pages // 8]]
            eventually(lambda: _requests(shell, mountpoint)["given_bytes"] == len(content))
            before = _requests(shell, mountpoint)["read"]
            rest = [view[page * mmap.PAGESIZE] for page in order[pages // 8 :]]
        assert first + rest == [content[page * mmap.PAGESIZE] for page in order]
        assert _requests(shell, mountpoint)["read"] == before


def _requests(shell: Shell, mountpoint: Path) -> dict[str, int]:
    text = shell.must("metrics", mountpoint).stdout
    found = re.findall(
        r'^headrace_fuse_(?:requests_total\{[^}]*"(read)"\}|(given_bytes)_total) (\d+)$', text, re.MULTILINE
    )
    return {read or given: int(value) for read, given, value in found}
