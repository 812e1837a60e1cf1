"""A FUSE program kept in the foreground: started, awaited, its processes known, and always taken down.

Knows nothing of any one program.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.contenders.contract import MountError
from headrace.process.stat import process_tree
from headrace.testing.processes import ServerProcess, ServerStartError

START_TIMEOUT_S = 60.0
UNMOUNT_TIMEOUT_S = 10.0
# Set for a proxy of the machine, these break clients that talk to an address of our own.
HIDDEN_VARIABLES = (
    "AWS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
)


class ForegroundMount:
    """One mounted tree and the process group behind it."""

    def __init__(
        self,
        command: Sequence[str],
        mountpoint: Path,
        *,
        log_path: Path,
        environment: Mapping[str, str],
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Starts and waits until `mountpoint` is a mount. The environment never enters `command`."""
        self.directory = mountpoint
        # A report names programs, not the folders where this machine has them.
        self.command = shlex.join([Path(command[0]).name, *command[1:]])
        mountpoint.mkdir(parents=True, exist_ok=True)
        # `env -u` and not a changed os.environ: other contenders start beside this one.
        unset = ["env", *(f"--unset={name}" for name in HIDDEN_VARIABLES)]
        self._process = ServerProcess([*unset, *command], log_path=log_path, environment=environment)
        try:
            self._process.wait_until(mountpoint.is_mount, timeout_s=start_timeout_s)
        except ServerStartError as error:
            self.close()
            raise MountError(str(error)) from error

    def processes(self) -> Sequence[int]:
        return process_tree(self._process.pid)

    def warm(self, seconds: float) -> str | None:  # noqa: ARG002 - peers have no warm-up of their own
        return None

    def close(self) -> None:
        unmount(self.directory)
        self._wait_for_exit()
        self._process.stop()
        unmount(self.directory)

    def _wait_for_exit(self) -> None:
        deadline = time.monotonic() + UNMOUNT_TIMEOUT_S
        while self._process.is_running() and time.monotonic() < deadline:
            time.sleep(0.02)


def unmount(mountpoint: Path) -> None:
    """Unmounts if mounted: politely, then lazily."""
    polite = ["umount", str(mountpoint)] if os.geteuid() == 0 else [_fusermount(), "-u", str(mountpoint)]
    lazy = ["umount", "-l", str(mountpoint)] if os.geteuid() == 0 else [_fusermount(), "-uz", str(mountpoint)]
    for command in (polite, lazy):
        if not is_mounted(mountpoint):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, check=False, timeout=UNMOUNT_TIMEOUT_S)


def is_mounted(mountpoint: Path) -> bool:
    """By the kernel's table: asking the mountpoint itself would wait for a daemon that hangs."""
    table = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    place = str(mountpoint).replace(" ", "\\040")
    return any(line.split(" ")[1] == place for line in table.splitlines())


def find_program(name: str) -> Path | None:
    """A program of this checkout's .cache/bin, else of PATH."""
    for checkout in Path(__file__).resolve().parents:
        program = checkout / ".cache" / "bin" / name
        if program.is_file():
            return program
    found = shutil.which(name)
    return Path(found) if found else None


def program_version(command: Sequence[str]) -> str:
    """The first line that a program says about its version."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def _fusermount() -> str:
    return shutil.which("fusermount3") or "fusermount"
