"""Wakes those who watch when something was changed, from whatever thread it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Watchers:
    """Everybody who watches. Made in the event loop that they wait in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: set[asyncio.Event] = set()

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set after each change."""
        event = asyncio.Event()
        self._events.add(event)
        try:
            yield event
        finally:
            self._events.discard(event)

    def wake(self) -> None:
        """Wakes all. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for event in self._events:
            event.set()
