"""The control groups of a cluster: made before the kubelets ask for them, and removed with all that runs inside."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_WAIT_S = 120.0


def make_cgroup(name: str) -> None:
    """A group in every hierarchy. `name` may have several parts; each gets what its parent can give."""
    for hierarchy in _hierarchies():
        place = hierarchy
        for part in Path(name).parts:
            _share_controllers(place)
            place = place / part
            place.mkdir(exist_ok=True)
            _inherit_cpuset(place)


def joining(name: str) -> tuple[str, ...]:
    """The words before a command that shall run in a group, in every hierarchy."""
    files = [str(hierarchy / name / "cgroup.procs") for hierarchy in _hierarchies()]
    script = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'
    return ("sh", "-ec", script, "sh", *files, "--")


def end_cgroup(name: str) -> None:
    """Kills what runs below a group, and removes the group. One that is gone is no error."""
    deadline = time.monotonic() + _WAIT_S
    while pids := members(name):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {sorted(pids)} of the group {name} cannot be killed")
        time.sleep(0.05)
    for hierarchy in _hierarchies():
        for group in _groups(hierarchy / name):
            _remove(group)


def members(name: str) -> set[int]:
    """The processes below a group."""
    found: set[int] = set()
    for hierarchy in _hierarchies():
        for group in _groups(hierarchy / name):
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    # 0 stands for a process outside of what we can see.
    return found - {0}


def _hierarchies() -> list[Path]:
    """One of version 2, or one for each controller of version 1."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    # Links such as `cpu,cpuacct` lead to a hierarchy that has its own entry.
    return [path for path in _ROOT.iterdir() if path.is_dir() and not path.is_symlink()]


def _groups(top: Path) -> Iterator[Path]:
    """A group and all below, the deepest first."""
    if top.is_dir():
        for parent, _, _ in os.walk(top, topdown=False):
            yield Path(parent)


def _share_controllers(group: Path) -> None:
    control = group / "cgroup.subtree_control"
    if not control.exists():
        return
    for controller in (group / "cgroup.controllers").read_text().split():
        # One that this machine keeps to itself is no loss.
        with contextlib.suppress(OSError):
            control.write_text(f"+{controller}")


def _inherit_cpuset(group: Path) -> None:
    """A group of version 1 takes no process before it is told its processors and memory."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        own, parent = group / name, group.parent / name
        if not (group / "cgroup.controllers").exists() and own.exists() and not own.read_text().strip():
            own.write_text(parent.read_text())


def _remove(group: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            # What was killed a moment ago may still be leaving.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
