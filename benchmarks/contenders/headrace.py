"""Headrace under test, through its commands, as a user runs it. One contender for each way to mount.

Knows the command line and `status --json` and nothing of the engine.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contenders.contract import CacheSpace, Kind, MountError, Source
from benchmarks.contenders.foreground import ForegroundMount, find_program, program_version, unmount

UNMOUNT_TIMEOUT_S = 20.0
VIEW_NEEDS = (6, 15)


class HeadraceMount(ForegroundMount):
    """A tree mounted by `headrace mount --foreground`."""

    @property
    def program(self) -> str:
        return str(headrace_program())

    def warm(self, seconds: float) -> str | None:
        """`headrace warm`, which returns when every byte is in."""
        command = [self.program, "warm", str(self.directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        if done.returncode != 0:
            raise MountError(f"`headrace warm` failed: {(done.stderr or done.stdout).strip()[-500:]}")
        return " ".join(["headrace", *command[1:]])

    def status(self) -> dict[str, Any]:
        command = [self.program, "status", "--json", str(self.directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise MountError(f"`headrace status` failed: {(done.stderr or done.stdout).strip()[-500:]}")
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def close(self) -> None:
        command = [self.program, "unmount", str(self.directory)]
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=UNMOUNT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            unmount(self.directory)
        super().close()


@dataclass(frozen=True)
class Headrace:
    """`mode` is one of the ways to mount; "auto" lets Headrace choose. `snapshot`: which list a mount starts with."""

    mode: str = "auto"
    snapshot: str = "refresh"
    kind: Kind = Kind.HEADRACE
    keeps_disk_cache: bool = True
    obeys_quota: bool = True

    @property
    def name(self) -> str:
        return "headrace" if self.mode == "auto" else f"headrace-{self.mode}"

    def missing(self) -> str | None:
        if self.mode == "view" and (os.geteuid() != 0 or _kernel() < VIEW_NEEDS):
            return "a view needs root, and Linux 6.15"
        return None if headrace_program() else "the command `headrace` is not installed in this environment"

    def version(self) -> str:
        return program_version([str(headrace_program()), "--version"])

    def mount(self, source: Source, mountpoint: Path, cache: CacheSpace) -> HeadraceMount:
        program = str(headrace_program())
        cache.folder.mkdir(parents=True, exist_ok=True)
        command = [
            *(program, "mount", f"s3://{source.bucket}/{source.prefix}".rstrip("/"), str(mountpoint)),
            *("--cache", f"{cache.folder}:{cache.quota_mebibytes}Mi:SSD", "--foreground"),
            *("--option", f"endpoint={source.endpoint}", "--option", "path-style=true"),
            *("--option", f"region={source.region}", "--state-directory", f"{cache.folder}.state"),
            *(("--memory", f"{cache.memory_bytes >> 20}Mi") if cache.memory_bytes else ()),
            *(("--mode", self.mode) if self.mode != "auto" else ()),
            *(("--allow-other",) if self.mode == "view" else ()),
            *(("--snapshot", self.snapshot) if self.snapshot != "refresh" else ()),
        ]
        log_path = cache.folder.with_suffix(".log")
        return HeadraceMount(
            command, mountpoint, log_path=log_path, environment=source.credentials.environment()
        )


def _kernel() -> tuple[int, ...]:
    return tuple(int(number) for number in platform.release().split("-")[0].split(".")[:2])


def headrace_program() -> Path | None:
    """The command of the environment that runs the benchmark, else of PATH."""
    beside = Path(sys.executable).with_name("headrace")
    return beside if os.access(beside, os.X_OK) else find_program("headrace")
