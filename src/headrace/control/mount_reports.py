"""The mounts that report to the master: shown to people, no members of the ring."""

from __future__ import annotations

from typing import Any

from headrace.control.messages import MountHeartbeat
from headrace.control.traffic import Throughput

SILENT_S = 60.0
INTERVAL_S = 10.0
MOST = 100_000


class Mounts:
    """The mounts heard of lately. Pure: time comes in."""

    def __init__(self, throughput: Throughput) -> None:
        self._throughput = throughput
        self._heard: dict[str, tuple[MountHeartbeat, float]] = {}

    def note(self, beat: MountHeartbeat, now_s: float) -> None:
        """A mount has reported."""
        if beat.id not in self._heard and len(self._heard) >= MOST:
            return
        self._heard[beat.id] = (beat, now_s)
        self._throughput.note(f"mount/{beat.id}", beat.instance, beat.traffic, now_s)

    def tick(self, now_s: float) -> None:
        """Forgets those that have been silent for long."""
        for mount_id, (_, heard_s) in list(self._heard.items()):
            if now_s - heard_s > SILENT_S:
                del self._heard[mount_id]
                self._throughput.forget(f"mount/{mount_id}")

    @property
    def count(self) -> int:
        """The number of mounts."""
        return len(self._heard)

    def rows(self, now_s: float) -> list[dict[str, Any]]:
        """For the status, by node."""
        beats = sorted(self._heard.values(), key=lambda each: (each[0].node, each[0].mountpoint))
        return [
            {
                "id": beat.id,
                "node": beat.node,
                "mountpoint": beat.mountpoint,
                "epoch": beat.known_epoch,
                "snapshot_version": beat.snapshot_version,
                "heartbeat_age_s": round(max(now_s - heard_s, 0.0), 3),
                **beat.traffic.model_dump(),
            }
            for beat, heard_s in beats
        ]
