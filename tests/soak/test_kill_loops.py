"""A mount whose process is killed and replaced without end, at any moment, under programs that read and compare."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.harness import Shell
from tests.integration.survival import (
    MODES,
    fill,
    kill_process,
    readers,
    registered,
    shell_without_server,
    wait_until_restarted,
)

# A process that served for less than a second counts as a quick failure; see headrace.roles.supervision.restarts.
BETWEEN_KILLS_S = 1.2


@pytest.mark.parametrize("mode", MODES)
def test_no_reader_notices_kills_again_and_again(
    tmp_path: Path, mode: str, seed: int, rounds: Iterator[int]
) -> None:
    shell, source = shell_without_server(tmp_path / "home"), fill(tmp_path / "source")
    # The cache is too small for everything: files are evicted, fetched again, and opened in both ways.
    quota = "10Mi" if mode == "passthrough" else "1Gi"
    words, cache = ("--mode", mode, "--block-size", "256Ki"), tmp_path / "cache"
    chance = random.Random(f"{seed} {mode}")
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=cache, quota=quota) as mountpoint:
        with readers(mountpoint, source, pause_s=0) as reading:
            for kills in rounds:
                time.sleep(BETWEEN_KILLS_S + chance.random() * 0.3)
                assert kill_process(shell, mountpoint) == kills
                wait_until_restarted(shell, mountpoint, beyond=kills)
            reading.wait_for_a_round()
        assert registered(shell, mountpoint).restarts == kills + 1
        assert shell.run("verify", mountpoint).code == 0


def test_no_reader_notices_replacements_and_kills(tmp_path: Path, seed: int, rounds: Iterator[int]) -> None:
    shell, source = shell_without_server(tmp_path / "home"), fill(tmp_path / "source")
    chance = random.Random(seed)
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        with readers(mountpoint, source, pause_s=0) as reading:
            for _ in rounds:
                time.sleep(chance.random())
                _replace_or_kill(shell, mountpoint, chance)
            reading.wait_for_a_round()
        assert shell.run("verify", mountpoint).code == 0


def test_no_reader_notices_kills_of_supervisors_and_processes(
    tmp_path: Path, seed: int, rounds: Iterator[int]
) -> None:
    shell, source = shell_without_server(tmp_path / "home"), fill(tmp_path / "source")
    chance = random.Random(seed)
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        with readers(mountpoint, source, pause_s=0) as reading:
            for kills in rounds:
                time.sleep(BETWEEN_KILLS_S + chance.random())
                entry = registered(shell, mountpoint)
                victim = chance.choice((entry.pid, entry.supervisor_pid))
                assert victim is not None
                os.kill(victim, signal.SIGKILL)
                wait_until_restarted(shell, mountpoint, beyond=kills)
            reading.wait_for_a_round()
        assert shell.run("verify", mountpoint).code == 0


def _replace_or_kill(shell: Shell, mountpoint: Path, chance: random.Random) -> None:
    if chance.random() < 0.7:
        shell.must("restart", mountpoint)
        return
    time.sleep(BETWEEN_KILLS_S)
    wait_until_restarted(shell, mountpoint, beyond=kill_process(shell, mountpoint))
