"""Keeps the mirror: one watch a kind, and word of every change to whom it may matter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from headrace.api.kinds import OPERATIONS, RUNTIMES
from headrace.errors import HeadraceError
from headrace.kube.client import Content, KubeClient
from headrace.operator.mirror import Mirror, Name, name_of
from headrace.operator.rendering.naming import OURS
from headrace.work_queue import back_off_s

_log = logging.getLogger("headrace.operator")

OnChange = Callable[[str, Content | None, Content | None], None]
"""Hears the kind of a changed object, and what was and is known of it."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A kind that is watched: all of it, or what has these labels."""

    kind: str
    labels: Mapping[str, str] | None = None


FOLLOWED = (
    *(Followed(kind) for kind in ("Dataset", *RUNTIMES, *OPERATIONS)),
    *(Followed(kind) for kind in ("Node", "Pod", "Secret", "PersistentVolume", "PersistentVolumeClaim")),
    *(Followed(kind, OURS) for kind in ("StatefulSet", "DaemonSet", "Service", "ConfigMap", "Job")),
)


class Informers:
    """The watches. `ready` is set once every kind was listed."""

    def __init__(self, client: KubeClient, mirror: Mirror, on_change: OnChange) -> None:
        self._client, self._mirror, self._on_change = client, mirror, on_change
        self._listed: set[str] = set()
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Follows until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for followed in FOLLOWED:
                tasks.create_task(self._follow(followed))

    async def _follow(self, followed: Followed) -> None:
        failures = 0
        while True:
            try:
                async for change in self._changes(followed):
                    failures = 0
                    self._take(followed.kind, *change)
            except HeadraceError as error:
                failures += 1
                _log.warning("%s cannot be watched: %s", followed.kind, error)
                await asyncio.sleep(back_off_s(failures))

    async def _changes(self, followed: Followed) -> AsyncIterator[tuple[str, Content]]:
        """Changes, with what went while nobody watched as deletions."""
        seen: set[Name] = set()
        async for what, content in self._client.watch(followed.kind, labels=followed.labels):
            if what == "SYNCED":
                for name in self._mirror.missing(followed.kind, seen):
                    yield "DELETED", {"metadata": {"namespace": name[0], "name": name[1]}}
                seen.clear()
                self._note_listed(followed.kind)
            else:
                if what == "SYNC":
                    seen.add(name_of(content))
                yield what, content

    def _take(self, kind: str, what: str, content: Content) -> None:
        if what == "DELETED":
            self._on_change(kind, self._mirror.drop(kind, name_of(content)), None)
        else:
            before, kept = self._mirror.put(kind, content)
            if before != kept:
                self._on_change(kind, before, kept)

    def _note_listed(self, kind: str) -> None:
        self._listed.add(kind)
        if len(self._listed) == len(FOLLOWED):
            self.ready.set()
