"""Throughput of the last minutes, from the counters that members report. Pure: time comes in, by a steady clock.

Members report at moments of their own, a mount every ten seconds. The bytes moved since the last report are spread over
the time since then, so that a steady reader is a steady line. The last seconds are known only when all have reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.control.messages import Traffic

KEPT_S = 900.0
SAMPLE_EVERY_S = 5.0
SETTLED_AFTER_S = 12.0
"""A little more than the longest time between two reports of a mount."""
_KEPT_SLOTS = int(KEPT_S / SAMPLE_EVERY_S)
_MINUTE_SLOTS = int(60 / SAMPLE_EVERY_S)
_LATE_SLOTS = int(10 / SAMPLE_EVERY_S)
"""What workers fetched is heard of sooner than what was read of it, by as much as a mount takes between two reports."""

Moved = tuple[float, float, float, float]
_NOTHING: Moved = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Sample:
    """Bytes a second of the whole cluster, in the seconds before one moment."""

    at_s: float
    local: float
    peer: float
    origin: float


@dataclass(frozen=True)
class Reads:
    """The reads from which a hit ratio follows (`headrace.hit_ratio`), of the last minute that is known."""

    read_bytes: int
    remote_bytes: int
    """Those of them that came from workers of other nodes."""
    fetched_bytes: int
    """Bytes that the origin sent, without those of loads."""


@dataclass(frozen=True)
class _Heard:
    instance: str
    traffic: Traffic
    at_s: float


@dataclass
class Throughput:
    """Sums what the members moved, by slots of five seconds."""

    _last: dict[str, _Heard] = field(default_factory=dict)
    _moved: defaultdict[int, Moved] = field(default_factory=lambda: defaultdict(lambda: _NOTHING))
    _first: int | None = None

    def note(self, member: str, instance: str, traffic: Traffic, now_s: float) -> None:
        """Takes a member's counters; those of a new instance began at zero, those of a first sight count from here."""
        known = self._last.get(member)
        self._last[member] = _Heard(instance, traffic, now_s)
        if self._first is None:
            self._first = _slot(now_s)
        if known is None:
            return
        before = known.traffic if known.instance == instance else Traffic()
        local, peer, origin, loaded = (
            float(max(new - old, 0)) for new, old in zip(_counters(traffic), _counters(before), strict=True)
        )
        if local or peer or origin:
            self._add((local, peer, origin, loaded), known.at_s, now_s)

    def forget(self, member: str) -> None:
        """Drops a member that is gone."""
        self._last.pop(member, None)

    def samples(self, now_s: float) -> list[Sample]:
        """The last fifteen minutes as far as they are known, oldest first."""
        if self._first is None:
            return []
        end = _slot(now_s - SETTLED_AFTER_S)
        return [
            Sample(
                (slot + 1) * SAMPLE_EVERY_S,
                *(count / SAMPLE_EVERY_S for count in self._moved.get(slot, _NOTHING)[:3]),
            )
            for slot in range(max(self._first, end - _KEPT_SLOTS), end)
        ]

    def last_minute(self, now_s: float) -> Reads:
        """The bytes read then, and the bytes that the origin sent for them."""
        end = _slot(now_s - SETTLED_AFTER_S)
        slots = [self._moved.get(slot, _NOTHING) for slot in range(end - _MINUTE_SLOTS - _LATE_SLOTS, end)]
        local, peer = (sum(moved[column] for moved in slots[_LATE_SLOTS:]) for column in (0, 1))
        fetched = sum(moved[2] - moved[3] for moved in slots)
        return Reads(round(local + peer), round(peer), max(round(fetched), 0))

    def _add(self, moved: Moved, since_s: float, until_s: float) -> None:
        for slot, share in _shares(max(since_s, until_s - KEPT_S), until_s):
            local, peer, origin, loaded = (
                before + share * more for before, more in zip(self._moved[slot], moved, strict=True)
            )
            self._moved[slot] = (local, peer, origin, loaded)
        if len(self._moved) > 2 * _KEPT_SLOTS:
            for slot in sorted(self._moved)[:-_KEPT_SLOTS]:
                del self._moved[slot]


def _shares(since_s: float, until_s: float) -> Iterator[tuple[int, float]]:
    """The slots between two moments, and how much of that time lies in each."""
    if until_s <= since_s:
        yield _slot(until_s), 1.0
        return
    for slot in range(_slot(since_s), _slot(until_s) + 1):
        begin_s = max(slot * SAMPLE_EVERY_S, since_s)
        end_s = min((slot + 1) * SAMPLE_EVERY_S, until_s)
        yield slot, max(end_s - begin_s, 0.0) / (until_s - since_s)


def _slot(at_s: float) -> int:
    return int(at_s // SAMPLE_EVERY_S)


def _counters(traffic: Traffic) -> tuple[int, int, int, int]:
    return traffic.local_bytes, traffic.peer_bytes, traffic.origin_bytes, traffic.loaded_bytes
