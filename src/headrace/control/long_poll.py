"""Many waiters for one change: the long polls of members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LongPolls:
    """Wakes everybody who waits when something changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def announce(self) -> None:
        """Something changed."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait_for(self, is_there: Callable[[], bool], timeout_s: float) -> bool:
        """True as soon as `is_there` says so; False when it did not in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not is_there():
            event = self._event
            left_s = deadline - loop.time()
            if left_s <= 0:
                return False
            try:
                await asyncio.wait_for(event.wait(), left_s)
            except TimeoutError:
                return is_there()
        return True
