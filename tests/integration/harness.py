"""What integration tests share: the `headrace` command as a user runs it, and mounts that always come down again."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.engine.handles import Engine
from headrace.engine.registry import Registry
from headrace.settings.environment import Environment

HEADRACE = str(Path(sys.executable).parent / "headrace")
DEADLINE_S = 120


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def talk(self) -> str:
        return self.stdout + self.stderr


@functools.cache
def why_no_view() -> str | None:
    """What keeps this machine from showing views of what is in temporary folders; `None` when nothing does."""
    if os.geteuid() != 0:
        return "a view needs root"
    if tuple(int(number) for number in platform.release().split("-")[0].split(".")[:2]) < (6, 15):
        return "a view needs Linux 6.15"
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["modprobe", "--quiet", "erofs"], check=False)
    if "erofs" not in Path("/proc/filesystems").read_text().split():
        return "this kernel has no EROFS"
    found = ["findmnt", "--noheadings", "--output", "FSTYPE", "--target", tempfile.gettempdir()]
    kind = subprocess.run(found, capture_output=True, text=True, check=True).stdout.strip()
    return f"the kernel takes no image from a {kind}" if kind in ("overlay", "tmpfs") else None


def mode_words(mode: str) -> tuple[str, ...]:
    """The words by which `headrace mount` takes a mode; skips the test where kernel or rights do not allow it."""
    if mode == "passthrough" and os.geteuid() != 0:
        pytest.skip("passthrough needs CAP_SYS_ADMIN; run as root")
    if mode == "view" and (reason := why_no_view()):
        pytest.skip(reason)
    return ("--mode", mode, "--allow-other") if mode == "view" else ("--mode", mode)


@dataclass
class Shell:
    """Runs `headrace` with an environment of its own: nothing of the machine's clouds or caches leaks in, nor what
    mounts at the same place have left, since pytest numbers its folders anew when they were cleared.
    """

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def full_environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "PYTHONPATH") if name in os.environ
        }
        own = {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            "HEADRACE_STATE_DIR": str(self.home / ".local" / "state" / "headrace"),
            "NO_COLOR": "1",
        }
        return kept | own | self.environment

    def run(self, *arguments: str | Path, user: str | None = None, deadline_s: float = DEADLINE_S) -> Outcome:
        command = [HEADRACE, *map(str, arguments)]
        if user is not None:
            command = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--", *command]
        done = subprocess.run(
            command,
            env=self.full_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=deadline_s,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def must(self, *arguments: str | Path, **options: object) -> Outcome:
        outcome = self.run(*arguments, **options)  # type: ignore[arg-type]
        assert outcome.code == 0, f"headrace {arguments} ended with {outcome.code}:\n{outcome.talk}"
        return outcome

    def registry(self) -> Registry:
        """Of the mounts that its commands know."""
        return Registry(Environment(self.full_environment()).runtime_directory)

    def status(self, target: str | Path) -> dict:
        """What the engine of one mount says of itself; `headrace status --json` tells some more."""
        # Asked from here: a command takes a hundred times as long to start.
        with Engine.attach(Path(self.registry().get(str(target)).state_directory)) as engine:
            return dict(engine.status().model_dump(mode="json"))

    @contextlib.contextmanager
    def mounted(
        self,
        origin: str,
        mountpoint: Path,
        *words: str | Path,
        cache: Path | None = None,
        quota: str = "1Gi",
        options: Mapping[str, str] | None = None,
    ) -> Iterator[Path]:
        """Mounts, and unmounts whatever happened in between."""
        mountpoint.mkdir(parents=True, exist_ok=True)
        spelled = [
            word for name, value in (options or {}).items() for word in ("--option", f"{name}={value}")
        ]
        cached = ["--cache", f"{cache}:{quota}"] if cache else []
        self.must("mount", origin, mountpoint, *cached, *spelled, *words)
        try:
            yield mountpoint
        finally:
            self.run("unmount", "--force", mountpoint)
            assert not os.path.ismount(mountpoint), f"{mountpoint} is still mounted"


def tree_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def files_below(folder: Path) -> list[Path]:
    """Every file below a folder that others work in: any of it may be taken away meanwhile."""
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return sorted(path for path in found if path.is_file())


def bytes_of(path: Path) -> bytes:
    """The content of such a file; nothing when it is gone."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def command_lines() -> list[bytes]:
    """Of all processes of the machine."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                found.append(Path("/proc", name, "cmdline").read_bytes())
    return found


def drop_page_cache() -> None:
    """Only root can; without it the tests lose sharpness, not truth."""
    os.sync()
    with contextlib.suppress(PermissionError):
        Path("/proc/sys/vm/drop_caches").write_text("3")


def eventually(what: Callable[[], object], told: Callable[[], object] = str) -> None:
    """Waits until it is so; what it is `told` in the end is part of the failure."""
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)
