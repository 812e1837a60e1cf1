"""The masters of a cluster in memory: what they say of their workers, which hand over when told to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from memory_cluster import MemoryCluster

from headrace.control.client import ControlClient
from headrace.operator.masters import Masters
from headrace.operator.observer import Told


class MemoryMasters:
    """All masters. Told of nothing, workers stay; `hands_over` has them obey."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.hands_over = False
        self.fault = ""
        self.learns = 0
        """How often a new master is asked before it lists the workers that it hears of."""
        self.cached_bytes = 0
        self._asked: dict[str, int] = {}
        self._handed: dict[str, int] = {}
        """Times that a worker's pod was seen to hand over, by its uid."""

    def drain(self, worker: str) -> None:
        """Orders it."""
        number = worker.removeprefix("worker-")
        for pod in self.cluster.of("Pod"):
            if pod["metadata"]["name"].endswith(f"-worker-{number}"):
                self._handed.setdefault(pod["metadata"]["uid"], 0)

    async def told(self, master: str, _token: object) -> Told:
        """What a master says, or `fault` of one in whose place another answers."""
        return Told(None, self.fault) if self.fault else Told(await self.status(master))

    async def status(self, master: str) -> Mapping[str, Any] | None:
        """What a master says: who is there, and that all is listed; `None` where none answers."""
        pods = [pod for pod in self.cluster.of("Pod") if self._runs(pod)]
        own = [pod for pod in pods if pod["metadata"]["name"].endswith("-master-0")]
        if not master or not own:
            return None
        uid = own[0]["metadata"]["uid"]
        asked = self._asked[uid] = self._asked.get(uid, 0) + 1
        rows = [self._row(pod, asked > self.learns) for pod in pods if "-worker-" in pod["metadata"]["name"]]
        return {
            "workers": [row for row in rows if row],
            "snapshot": {"version": 1, "files": 3, "data_bytes": 1000},
            "cached_bytes": self.cached_bytes,
            "capacity_bytes": 1000,
            "has_listed": True,
        }

    def _runs(self, pod: Mapping[str, Any]) -> bool:
        return (pod.get("status") or {}).get("phase") == "Running" and self.cluster.is_up(
            pod["spec"]["nodeName"]
        )

    def _row(self, pod: Mapping[str, Any], is_listed: bool) -> Mapping[str, Any] | None:
        uid = pod["metadata"]["uid"]
        times = self._handed.get(uid)
        if times is not None:
            self._handed[uid] = times + 1
        if times:
            return None
        return {
            "id": f"worker-{pod['metadata']['name'].rpartition('-')[2]}",
            "node": pod["spec"]["nodeName"],
            "state": "active" if times is None else "draining",
            "is_listed": is_listed,
            "levels": [],
            "started_at_s": time.time(),
            "cached_bytes": 0,
        }


@dataclass(frozen=True, slots=True)
class Line:
    """The line to a master."""

    masters: MemoryMasters

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def drain(self, worker: str) -> None:
        """Orders it."""
        self.masters.drain(worker)


@dataclass(frozen=True, slots=True)
class WorldMasters(Masters):
    """The operator's way to them."""

    memory: MemoryMasters

    async def client(self, title: str) -> ControlClient:
        """A line, where workers obey."""
        if not self.memory.hands_over:
            return await Masters.client(self, title)
        return cast("ControlClient", Line(self.memory))
