"""Every byte of maps without a descriptor, while everything at once happens to the cache below them.

Evictions and moves between two levels, refreshes with other bytes, verification, kills of the mount process and of its
supervisor, replacements: at random, and all of them in all modes.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import map_keeper
import pytest
from tests.integration.harness import DEADLINE_S, Shell
from tests.integration.survival import (
    MODES,
    registered,
    shell_without_server,
    wait_until,
    wait_until_restarted,
)

FILES = 24
CHANGING = 6
"""So many of them change at the origin."""
FAST, SLOW = "16Mi", "48Mi"
"""A file is a quarter of the fast level, and all of them do not fit into both."""
KEEPERS = 3


@dataclass
class Scene:
    """A mount, its origin, and what happens to it."""

    shell: Shell
    source: Path
    mountpoint: Path
    seed: int
    chance: random.Random
    versions: dict[str, int] = field(default_factory=dict)
    happened: dict[str, int] = field(default_factory=dict)

    @property
    def notes(self) -> Path:
        return self.source.parent / "versions.json"

    def write(self, name: str, version: int) -> None:
        """Notes the version before anybody can see it."""
        self.versions[name] = version
        self._replace(self.notes, json.dumps(self.versions).encode())
        self._replace(self.source / name, map_keeper.content(self.seed, name, version))

    def _replace(self, path: Path, data: bytes) -> None:
        new = self.source.parent / "new"
        new.write_bytes(data)
        # Another time than the version before, whatever the clock's grain.
        os.utime(new, ns=(time.time_ns(), time.time_ns()))
        new.rename(path)

    def happen(self) -> None:
        """One thing, whichever it is; returns when it is over."""
        what = self.chance.choices(
            (self.read, self.refresh, self.kill, self.kill_supervisor, self.restart, self.verify, self.evict),
            weights=(8, 3, 3, 2, 1, 1, 1),
        )[0]
        self.happened[what.__name__] = self.happened.get(what.__name__, 0) + 1
        what()

    def read(self) -> None:
        """Twice, so that files of the slow level are worth a place in the fast one."""
        for name in self.chance.sample(sorted(self.versions), 4) * 2:
            with contextlib.suppress(OSError):
                (self.mountpoint / name).read_bytes()

    def refresh(self) -> None:
        name = self.chance.choice(sorted(self.versions)[:CHANGING])
        self.write(name, self.versions[name] + 1)
        self.shell.must("refresh", self.mountpoint)

    def kill(self) -> None:
        self._end(registered(self.shell, self.mountpoint).pid)

    def kill_supervisor(self) -> None:
        supervisor = registered(self.shell, self.mountpoint).supervisor_pid
        assert supervisor is not None
        self._end(supervisor)

    def _end(self, process: int) -> None:
        beyond = registered(self.shell, self.mountpoint).restarts
        os.kill(process, signal.SIGKILL)
        wait_until_restarted(self.shell, self.mountpoint, beyond=beyond)

    def restart(self) -> None:
        self.shell.must("restart", self.mountpoint)

    def verify(self) -> None:
        """What differs from the origin there may be: files change. Blocks that differ from their checksums may not."""
        said = self.shell.run("verify", self.mountpoint)
        assert "corrupt" not in said.stdout + said.stderr, said

    def evict(self) -> None:
        self.shell.run("evict", self.mountpoint / self.chance.choice(sorted(self.versions)))


@pytest.mark.parametrize("mode", MODES)
def test_no_byte_of_a_map_is_ever_wrong(tmp_path: Path, mode: str, seed: int, rounds: Iterator[int]) -> None:
    if mode == "passthrough" and os.geteuid() != 0:
        pytest.skip("passthrough needs CAP_SYS_ADMIN; run as root")
    shell, source = shell_without_server(tmp_path / "home"), tmp_path / "source"
    source.mkdir()
    scene = Scene(shell, source, tmp_path / "mnt", seed, random.Random(f"{seed} {mode}"))
    for number in range(FILES):
        scene.write(f"part-{number:02}", 0)
    words = ["--mode", mode, "--block-size", "1Mi", "--eviction", "lru"]
    words += ["--cache", f"{tmp_path}/slow:{SLOW}:HDD"]
    with shell.mounted(str(source), scene.mountpoint, *words, cache=tmp_path / "fast", quota=FAST):
        with keepers(scene) as progress:
            for _ in rounds:
                scene.happen()
                wait_for_a_step(progress)
        assert shell.run("verify", scene.mountpoint).stdout.count("corrupt") == 0


def test_who_looks_for_wrong_bytes_finds_one(tmp_path: Path, seed: int) -> None:
    """In a folder, which is as good as a mount to programs."""
    good = map_keeper.content(seed, "part-00", 0)
    wrong = bytearray(good)
    wrong[len(good) // 2] ^= 1
    source = tmp_path / "source"
    source.mkdir()
    scene = Scene(shell_without_server(tmp_path / "home"), source, source, seed, random.Random(seed))
    scene.write("part-00", 0)
    (source / "part-00").write_bytes(wrong)
    with pytest.raises(AssertionError, match="wrong bytes"), keepers(scene):
        pass


@contextlib.contextmanager
def keepers(scene: Scene) -> Iterator[list[Path]]:
    """Programs with maps while the block runs; afterwards each must have compared something, and nothing was wrong."""
    folder = scene.source.parent
    stop, progress = folder / "stop", [folder / f"steps-{number}" for number in range(KEEPERS)]
    command = [sys.executable, map_keeper.__file__, scene.mountpoint, scene.notes, stop]
    running = []
    for number, steps in enumerate(progress):
        steps.write_text("0")
        words = [*command, steps, str(scene.seed), str(number)]
        running.append(
            subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    try:
        yield progress
    finally:
        stop.touch()
        ends = [_end_of(keeper) for keeper in running]
    for code, said, failure in ends:
        assert code == 0, failure
        assert int(said) > 0, "nothing was compared"


def _end_of(keeper: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        said, failure = keeper.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        said, failure = keeper.communicate()
        failure = f"it hung\n{failure}"
    return keeper.returncode, said, failure


def wait_for_a_step(progress: list[Path]) -> None:
    """Returns once each of the programs has gone on: whoever has failed does not."""
    before = [path.read_text() for path in progress]

    def have_gone_on() -> bool:
        return all(path.read_text() not in ("", old) for path, old in zip(progress, before, strict=True))

    wait_until(have_gone_on, lambda: f"steps: {before}, then {[path.read_text() for path in progress]}")
