"""The ways to a bucket that the demo compares; each makes it a folder, with the commands that a user would type."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from progress import say

from headrace.testing.s3_server import S3Server

MOUNT_TIMEOUT_S = 60
WARM_TIMEOUT_S = 300
UNMOUNT_TIMEOUT_S = 90
# `headrace` ends with this code when the mount that it is asked about is not there.
NOTHING_THERE = 4
CACHE_QUOTA = "8Gi"


class WayError(RuntimeError):
    """A command of a way failed; the message holds what it said, `code` its exit code when it had one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Commands:
    """Runs a way's commands and keeps them for the report, with the keys in the environment only."""

    server: S3Server
    work: Path
    caches: Path
    shown: list[str]

    def run(self, *command: str, timeout_s: float = MOUNT_TIMEOUT_S) -> None:
        self._show(command)
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise WayError(
                f"`{' '.join(command)}` ended with {done.returncode}: {said[-2000:]}", done.returncode
            )

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        self._show(command)
        with (self.work / f"{Path(command[0]).name}.log").open("ab") as log:
            return subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _environment(self) -> dict[str, str]:
        keys = self.server.credentials
        s3fs_names = {"AWSACCESSKEYID": keys.access_key_id, "AWSSECRETACCESSKEY": keys.secret_access_key}
        # Nothing of the user's own mounts and settings is touched.
        own = {
            "AWS_REGION": self.server.region,
            "HEADRACE_STATE_DIR": str(self.work / "state"),
            "HEADRACE_RUNTIME_DIR": str(self.work / "run"),
            "HEADRACE_CONFIG": str(_empty_file(self.work / "headrace.toml")),
        }
        return {**os.environ, **keys.environment(), **s3fs_names, **own}

    def _show(self, command: tuple[str, ...]) -> None:
        text = (
            " ".join([Path(command[0]).name, *command[1:]])
            .replace(f"{self.work}/", "")
            .replace(f"{self.caches}/", "cache/")
        )
        if text not in self.shown:
            self.shown.append(text)


@contextlib.contextmanager
def s3fs(commands: Commands, bucket: str, prefix: str) -> Iterator[Path]:
    """Debian's s3fs as its manual starts it, read-only, with room for every name in its cache of attributes."""
    mountpoint = _empty_folder(commands.work / "mnt" / bucket)
    options = (
        f"url={commands.server.endpoint}",
        "use_path_request_style",
        "ro",
        "max_stat_cache_size=200000",
    )
    process = commands.start(
        "s3fs", f"{bucket}:/{prefix}", str(mountpoint), "-f", *(f"-o{option}" for option in options)
    )
    try:
        _wait_for_mount(mountpoint, process)
        yield mountpoint
    finally:
        unmount(mountpoint)
        _end(process)


@contextlib.contextmanager
def headrace(commands: Commands, bucket: str, prefix: str, cache: Path) -> Iterator[Path]:
    """A Headrace mount; whether it is cold or warm is what its cache folder holds."""
    mountpoint = _empty_folder(commands.work / "mnt" / bucket)
    program = headrace_program()
    options = (f"--option=endpoint={commands.server.endpoint}", "--option=path-style=true")
    try:
        commands.run(
            program,
            "mount",
            f"s3://{bucket}/{prefix}",
            str(mountpoint),
            "--cache",
            f"{cache}:{CACHE_QUOTA}",
            *options,
        )
        yield mountpoint
    finally:
        _end_headrace(commands, mountpoint)


def _end_headrace(commands: Commands, mountpoint: Path) -> None:
    """`headrace unmount` until the mount process has ended, too: a second mount may not share its cache before."""
    deadline = time.monotonic() + UNMOUNT_TIMEOUT_S
    while True:
        try:
            commands.run(headrace_program(), "unmount", str(mountpoint))
        except WayError as error:
            if error.code == NOTHING_THERE:
                return
            if time.monotonic() > deadline:
                unmount(mountpoint)
                raise
            say(f"    waiting for the mount to end: {str(error).splitlines()[0].rpartition('error: ')[2]}")
        else:
            return


def warm(commands: Commands, folder: Path) -> float:
    """`headrace warm` for all below a folder of a mount; the seconds it took."""
    started = time.monotonic()
    commands.run(headrace_program(), "warm", str(folder), timeout_s=WARM_TIMEOUT_S)
    return time.monotonic() - started


def headrace_program() -> str:
    """The command beside this Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("headrace")
    return str(beside) if beside.exists() else (shutil.which("headrace") or "headrace")


def unmount(mountpoint: Path) -> None:
    """Takes the mount away whatever holds it; nothing when there is none."""
    for command in (["fusermount3", "-u", str(mountpoint)], ["umount", "-l", str(mountpoint)]):
        if not os.path.ismount(mountpoint):
            return
        subprocess.run(command, capture_output=True, check=False)


def _empty_file(path: Path) -> Path:
    path.touch()
    return path


def _empty_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _wait_for_mount(mountpoint: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + MOUNT_TIMEOUT_S
    while not os.path.ismount(mountpoint):
        if process.poll() is not None or time.monotonic() > deadline:
            raise WayError(f"{process.args!r} did not mount {mountpoint}; see its log beside the mountpoint")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    if process.poll() is None:
        process.kill()
        process.wait()
