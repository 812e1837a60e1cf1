"""Values made of files, and made anew once these have changed: tokens and certificates of processes that outlive them.

The files are looked at whenever the value is used, so nothing runs in between. The same for peers is in
`crates/engine/src/wire/renewed.rs`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import SecretStr

from headrace.control.cluster_token import read_token
from headrace.control.rights import Rights, need
from headrace.errors import HeadraceError

_log = logging.getLogger("headrace.cluster")
_T = TypeVar("_T")

TRANSITION_S = 600.0
"""How long the value of before is still good: files come to the machines of a cluster one after the other."""

_Stamp = tuple[int, ...]
# Where it has the time of the last change: of content, owner, mode or name.
_CHANGED = 4


class Renewed(Generic[_T]):
    """A value that `make` makes of `files`, and makes again when they look changed.

    A `value` that is given is that of a start, and the files are read when it is first used.
    """

    def __init__(
        self, what: str, files: Sequence[Path], make: Callable[[], _T], *, value: _T | None = None
    ) -> None:
        self._what, self._files, self._make = what, tuple(files), make
        # Noted before they are read: what changes meanwhile is seen the next time.
        self._stamps: tuple[_Stamp, ...] = () if value is not None else self._look()
        self._now = make() if value is None else value
        self._before: _T | None = None
        self._until_s = 0.0

    def newest(self) -> _T:
        """The value of the files as they are now; of before where they hold none, which the log tells once."""
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            self._read()
        return self._now

    def in_force(self) -> tuple[_T, ...]:
        """The newest one, and the one before it for a while."""
        newest = self.newest()
        if self._before is None or time.monotonic() >= self._until_s:
            return (newest,)
        return (newest, self._before)

    def _read(self) -> None:
        try:
            found = self._make()
        except HeadraceError as error:
            _log.warning("%s of before stays in force: %s", self._what, error.message)
            return
        if found != self._now:
            self._before, self._until_s = self._now, time.monotonic() + self._left_s()
            self._now = found
            _log.info("%s was read again, and is in force", self._what)

    def _left_s(self) -> float:
        # From the change on: the files may be looked at long after it.
        changed_s = max(
            (stamp[_CHANGED] / 1e9 for stamp in self._stamps if len(stamp) > _CHANGED), default=0.0
        )
        return min(TRANSITION_S, max(0.0, TRANSITION_S - (time.time() - changed_s)))

    def _look(self) -> tuple[_Stamp, ...]:
        return tuple(_stamp(path) for path in self._files)


def renewed_token(token: SecretStr, file: Path | None, least: Rights) -> Renewed[SecretStr]:
    """A token that is read again when its file changes; one that allows less than `least` is none."""

    def read() -> SecretStr:
        found = read_token(file) if file is not None else token
        need(found, least)
        return found

    return Renewed("the token of the cluster", [file] if file else [], read, value=token)


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
