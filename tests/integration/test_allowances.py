"""A mount in a control group with little memory takes little of it, though nobody said how much."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import HEADRACE
from .survival import registered, shell_without_server, wait_until

MIB = 1 << 20
ROOTS = {
    Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup"): "memory.max",
}


@pytest.fixture
def group() -> Iterator[Path]:
    """One that allows 800 MiB; of version 1 or 2, as this machine has it."""
    for root, limit in ROOTS.items():
        folder = root / f"headrace-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            (folder / limit).write_text(str(800 * MIB))
            break
        with contextlib.suppress(OSError):
            folder.rmdir()
    else:
        pytest.skip("no control group with a limit of memory can be made here")
    yield folder
    # Processes that have ended leave it a moment later.
    wait_until(lambda: not (folder / "cgroup.procs").read_text(), lambda: f"{folder} is still in use")
    folder.rmdir()


@pytest.mark.root
def test_a_mount_takes_a_share_of_what_its_group_allows(group: Path, tmp_path: Path) -> None:
    shell, source, mountpoint = shell_without_server(tmp_path / "home"), tmp_path / "source", tmp_path / "mnt"
    source.mkdir()
    mountpoint.mkdir()
    (source / "file").write_bytes(b"content")
    command = [HEADRACE, "mount", source, mountpoint, "--cache", f"{tmp_path}/cache:1Gi"]
    joined = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group, *command]
    done = subprocess.run(
        list(map(str, joined)), env=shell.full_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    try:
        assert (mountpoint / "file").read_bytes() == b"content"
        limits = {budget["name"]: budget["limit"] for budget in shell.status(mountpoint)["budgets"]}
        assert limits["memory"] == 200 * MIB
        log_file = registered(shell, mountpoint).log_file
        assert log_file is not None
        assert "at most 200.00MiB of data under way" in Path(log_file).read_text()
    finally:
        shell.must("unmount", "--force", mountpoint)
