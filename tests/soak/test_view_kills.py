"""A view whose process is killed in the midst of refreshes: the newest list is shown in the end, open files stay."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.integration.harness import HEADRACE, Shell, mode_words, tree_of
from tests.integration.survival import (
    fill,
    registered,
    shell_without_server,
    wait_until,
    wait_until_restarted,
)

from headrace.roles.mountpoint.mount_table import mounts

LONGEST_S = 0.015
"""About as long as a list takes from its snapshot to being shown."""
MOST_HELD = 4


def test_a_view_killed_while_it_goes_on_to_another_list_shows_it(
    tmp_path: Path, seed: int, rounds: Iterator[int]
) -> None:
    shell, source = shell_without_server(tmp_path / "home"), fill(tmp_path / "source")
    chance, words = random.Random(seed), mode_words("view")
    with (
        ExitStack() as held,
        shell.mounted(str(source), tmp_path / "mnt", *words, cache=tmp_path / "cache") as mountpoint,
    ):
        opened: list[tuple[int, bytes]] = []
        for number in rounds:
            name = f"part-{chance.randrange(12):02}"
            if len(opened) < MOST_HELD:
                file = held.enter_context((mountpoint / name).open("rb", buffering=0))
                opened.append((file.fileno(), (mountpoint / name).read_bytes()))
            (source / name).write_bytes(chance.randbytes(chance.randrange(1, 500_000)))
            (source / f"new-{number % 50}").write_bytes(b"x" * number)
            kill_in_a_refresh(shell, mountpoint, chance)
            shell.must("refresh", mountpoint)
            assert tree_of(mountpoint) == tree_of(source)
            for descriptor, content in opened:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                assert os.pread(descriptor, 1 << 22, 0) == content
            assert len([mount for mount in mounts() if mount.path == str(mountpoint)]) == 1
        held.close()


def kill_in_a_refresh(shell: Shell, mountpoint: Path, chance: random.Random) -> None:
    """Kills the process of the mount once the new snapshot is there, and waits for the next one."""
    entry = registered(shell, mountpoint)
    folder = Path(entry.state_directory)
    before = set(os.listdir(folder))
    command = [HEADRACE, "refresh", str(mountpoint)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=shell.full_environment(), **quiet) as refresh:
        wait_until(
            lambda: set(os.listdir(folder)) != before or refresh.poll() is not None,
            lambda: sorted(os.listdir(folder)),
        )
        time.sleep(chance.random() * LONGEST_S)
        os.kill(entry.pid, signal.SIGKILL)
        refresh.wait()
    wait_until_restarted(shell, mountpoint, beyond=entry.restarts)
