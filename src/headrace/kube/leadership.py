"""Leading: work that one process of several does, for as long as it holds a Lease.

Only asks and writes; what to do is decided in `election`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Protocol

from headrace.errors import BusyError, EngineError, HeadraceError
from headrace.kube.election import (
    Content,
    Sighting,
    Take,
    Terms,
    acts_until,
    next_action,
    released,
    sighted,
)
from headrace.kube.faults import ConflictError

_log = logging.getLogger("headrace.leading")
_RELEASE_S = 3.0
_STOP_S = 5.0


def _now_s() -> float:
    """Seconds that go on while the machine sleeps: who wakes up must know that others have taken over."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def candidate(name: str) -> str:
    """A name for one life of a process. One that is started again must not take itself for the one that was killed."""
    return f"{name}_{secrets.token_hex(4)}"


async def until_one_ends(who: str, *parts: Coroutine[None, None, object]) -> None:
    """Runs the parts of a process until one of them ends, and cancels the others. Raises what that one raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if error := task.exception():
            raise EngineError.of(f"{who} cannot go on: {error}") from error


class LeadershipLostError(BusyError):
    """The lease could not be renewed in time: another process may lead by now, and this one must not act."""


class Leases(Protocol):
    """The calls of a `KubeClient` that leading needs."""

    async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
        """The object, or `None`."""

    async def create(self, content: Content) -> Content:
        """Makes it; `ConflictError` when it is there."""

    async def replace(self, content: Content) -> Content:
        """Writes over what was read; `ConflictError` when it changed."""


class Leadership:
    """One process's part in the election for one Lease. `me` is what `candidate` made."""

    def __init__(
        self,
        leases: Leases,
        namespace: str,
        name: str,
        me: str,
        *,
        terms: Terms | None = None,
        clock: Callable[[], float] = _now_s,
    ) -> None:
        self._leases = leases
        self._name = (namespace, name)
        self._title = f"lease {namespace}/{name}"
        self._me = me
        self._terms = terms or Terms()
        self._clock = clock
        self._seen: Sighting | None = None
        self._acts_until_s: float | None = None

    def holds(self) -> bool:
        """True while this process may act. Cheap: ask it right before anything that only a leader may do."""
        return self._acts_until_s is not None and self._clock() < self._acts_until_s

    async def acquire(self) -> None:
        """Waits until this process leads."""
        while not self.holds():
            await asyncio.sleep(await self._try_to_hold())
        _log.info("%s: %s leads", self._title, self._me)

    async def keep(self) -> None:
        """Renews for as long as that goes well. Raises `LeadershipLostError` as soon as this process must not act."""
        while True:
            until_s = self._acts_until_s or 0.0
            try:
                async with asyncio.timeout(max(until_s - self._clock(), 0.0)):
                    await asyncio.sleep(self._terms.retry_s)
                    await self._try_to_hold()
            except TimeoutError:
                pass
            if not self.holds():
                self._acts_until_s = None
                raise LeadershipLostError.of(
                    f"{self._title}: {self._me} leads no longer",
                    hint="the process starts again as a candidate",
                )

    async def release(self) -> None:
        """Gives the lease back, if it is ours, for the next one to lead at once. Call it when nothing acts any more."""
        self._acts_until_s = None
        with contextlib.suppress(HeadraceError, TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                lease = await self._leases.get("Lease", *self._name)
                given = released(lease, self._me) if lease else None
                if given is not None:
                    await self._leases.replace(given)
                    _log.info("%s: %s gave it back", self._title, self._me)

    async def lead(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Waits to lead, then works until the work is done, this is cancelled, or the lease is lost.

        Raises `LeadershipLostError` in the last case, after the work was cancelled.
        """
        await self.acquire()
        renewing = asyncio.ensure_future(self.keep())
        working = asyncio.ensure_future(work())
        try:
            done, _ = await asyncio.wait({renewing, working}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Work that does not end in time must not keep the process from ending.
            renewing.cancel()
            working.cancel()
            await asyncio.wait({renewing, working}, timeout=_STOP_S)
            await self.release()
        (working if working in done else renewing).result()

    async def _try_to_hold(self) -> float:
        """Looks at the lease, and takes or renews it if that is allowed; how long to wait before the next time."""
        try:
            self._seen = sighted(
                self._seen, await self._leases.get("Lease", *self._name), now_s := self._clock()
            )
            action = next_action(
                self._seen, self._me, name=self._name, terms=self._terms, now_s=now_s, wall=datetime.now(UTC)
            )
            if not isinstance(action, Take):
                self._acts_until_s = None
                return action.seconds
            await self._take(action.lease)
        except ConflictError:
            _log.debug("%s: somebody else was faster", self._title)
        except HeadraceError as error:
            _log.warning("%s: %s", self._title, error)
        return 0.0 if self.holds() else self._terms.retry_s

    async def _take(self, lease: Content) -> None:
        sent_s = self._clock()
        write = self._leases.replace if "resourceVersion" in lease["metadata"] else self._leases.create
        self._seen = sighted(self._seen, await write(lease), self._clock())
        self._acts_until_s = acts_until(sent_s, self._terms)
