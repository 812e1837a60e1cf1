"""Saves the master's state in a thread, many changes in one write, each asker answered when its change is on disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.control import state_file
from headrace.errors import CorruptDataError, NoSpaceError

_log = logging.getLogger("headrace.master")


class Saver:
    """One state file. `state` gives what is to be saved at the moment of writing."""

    def __init__(self, path: Path, state: Callable[[], dict[str, Any]]) -> None:
        self._path = path
        self._state = state
        self._wanted = 0
        self._written = 0
        self._lock = asyncio.Lock()
        self.failing = False

    async def save(self) -> None:
        """Returns when all that was changed before the call is on disk. Raises `NoSpaceError` when it cannot be."""
        self._wanted += 1
        mine = self._wanted
        async with self._lock:
            if self._written >= mine:
                return
            upto = self._wanted
            try:
                await asyncio.to_thread(state_file.write, self._path, self._state())
            except OSError as error:
                raise self._failed(error) from None
            self._written = upto
            self.failing = False

    async def try_to_save(self) -> None:
        """The same for a change that nobody waits for: what is lost with it is learnt again from the members."""
        try:
            await self.save()
        except NoSpaceError:
            return

    def _failed(self, error: OSError) -> NoSpaceError:
        message = f"cannot save the master's state in {self._path}: {error.strerror}"
        if not self.failing:
            _log.error("master: %s; it goes on without", message)
        self.failing = True
        return NoSpaceError.of(message, hint="make room there; the cluster goes on meanwhile")


def load_state(path: Path, now_s: float) -> dict[str, Any]:
    """The saved state; an empty one at the first start, and when the file is damaged, which is then set aside."""
    try:
        return state_file.read(path) or {}
    except CorruptDataError as error:
        aside = state_file.set_aside(path, now_s)
        _log.error(
            "master: the state %s is damaged: %s. It is kept as %s; members are learnt from their heartbeats, "
            "pins and loads must be ordered again",
            path,
            error,
            aside.name,
        )
        return {}
