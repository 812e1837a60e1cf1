"""State folders of mounts that are gone. Each holds the last list of files and a log, and is of use to nobody but a
mount of the same origin with the same cache, which would make it anew.
"""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from headrace.errors import RefusedError
from headrace.trusted_folders import check_folder

_LOCK = "owner.lock"  # as in `crates/engine/src/engine/state.rs`
_GOING = ".going-"


class LeftState(NamedTuple):
    """One of them. `used_at_s`: when its process last wrote there, in seconds since 1970."""

    path: Path
    size_bytes: int
    used_at_s: float


def left_states(root: Path, in_use: Collection[Path], unused_since_s: float) -> list[LeftState]:
    """Those below `root` in which nothing was written since then, the longest unused first. `in_use`: those of running
    mounts, also of one whose process is just being replaced.
    """
    kept = {path.absolute() for path in in_use}
    found = [
        _state(folder)
        for folder in _folders(root, unused_since_s)
        if folder.absolute() not in kept and (folder.name.startswith(_GOING) or _is_free(folder))
    ]
    unused = [
        state for state in found if state.used_at_s <= unused_since_s and not _holds_written(state.path)
    ]
    return sorted(unused, key=lambda state: state.used_at_s)


def remove(state: LeftState) -> bool:
    """Takes one away, in one step for whoever looks; false when somebody uses it now. Raises `OSError`."""
    going = state.path
    if not going.name.startswith(_GOING):
        with _locked(state.path) as is_ours:
            if not is_ours or _state(state.path).used_at_s != state.used_at_s:
                return False
            going = state.path.with_name(f"{_GOING}{os.getpid()}-{state.path.name}")
            state.path.rename(going)
    import shutil  # noqa: PLC0415 - most who ask what was left take nothing away

    shutil.rmtree(going)
    return True


def _folders(root: Path, unused_since_s: float) -> Iterator[Path]:
    """The states, less those that had an owner later: most of a busy machine need no closer look."""
    try:
        check_folder(root)
        folders = list(os.scandir(root))
    except RefusedError:
        raise
    except OSError:
        return
    for folder in folders:
        if folder.is_dir(follow_symlinks=False):
            path = Path(folder.path)
            if folder.name.startswith(_GOING) or _owned_at_s(path) <= unused_since_s:
                yield path


def _owned_at_s(folder: Path) -> float:
    """When it had its last owner; never, in a sense, when it is no state."""
    try:
        return (folder / _LOCK).lstat().st_mtime
    except OSError:
        return math.inf


def _holds_written(folder: Path) -> bool:
    """Whether files lie there that programs wrote, and may be nowhere else."""
    return next(folder.glob("staging-*/*.staged"), None) is not None


def _is_free(folder: Path) -> bool:
    with _locked(folder) as is_ours:
        return is_ours


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether nobody owns the folder; nobody else can as long as this lasts."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = True
    except OSError:
        is_ours = False
    try:
        yield is_ours
    finally:
        os.close(descriptor)


def _state(folder: Path) -> LeftState:
    found = [folder.stat()]
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            found.append(path.lstat())
    used = max(each.st_mtime for each in found)
    return LeftState(folder, sum(each.st_blocks * 512 for each in found[1:]), used)
