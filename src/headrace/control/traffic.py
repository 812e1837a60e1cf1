"""Throughput of the last minutes, from the counters that members report. Pure: time comes in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from headrace.control.messages import Traffic

KEPT_S = 900.0
SAMPLE_EVERY_S = 5.0


@dataclass(frozen=True)
class Sample:
    """Bytes a second of the whole cluster, around one moment (seconds since 1970)."""

    at_s: float
    local: float
    peer: float
    origin: float


@dataclass
class Throughput:
    """Sums what the members moved since the last sample."""

    kept_s: float = KEPT_S
    _last: dict[str, tuple[str, Traffic]] = field(default_factory=dict)
    _moved: list[int] = field(default_factory=lambda: [0, 0, 0])
    _since_s: float | None = None
    _samples: deque[Sample] = field(default_factory=deque)

    def note(self, member: str, instance: str, traffic: Traffic) -> None:
        """Takes a member's counters; those of a new instance began at zero, those of a first sight count from here."""
        known = self._last.get(member)
        self._last[member] = (instance, traffic)
        if known is None:
            return
        before = known[1] if known[0] == instance else Traffic()
        for number, (new, old) in enumerate(zip(_counters(traffic), _counters(before), strict=True)):
            self._moved[number] += max(new - old, 0)

    def forget(self, member: str) -> None:
        """Drops a member that is gone."""
        self._last.pop(member, None)

    def sample(self, now_s: float) -> None:
        """Closes a sample when it is time for one."""
        if self._since_s is None:
            self._since_s = now_s
            return
        elapsed_s = now_s - self._since_s
        if 0 <= elapsed_s < SAMPLE_EVERY_S:
            return
        if elapsed_s > 0:
            rates = [moved / elapsed_s for moved in self._moved]
            self._samples.append(Sample(now_s, *rates))
        self._moved, self._since_s = [0, 0, 0], now_s
        while self._samples and self._samples[0].at_s < now_s - self.kept_s:
            self._samples.popleft()

    def samples(self) -> list[Sample]:
        """The last fifteen minutes, oldest first."""
        return list(self._samples)


def _counters(traffic: Traffic) -> tuple[int, int, int]:
    return traffic.local_bytes, traffic.peer_bytes, traffic.origin_bytes
