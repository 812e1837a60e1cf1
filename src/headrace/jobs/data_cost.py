"""What a job's reads cost, from the counters of the mounts that it read through and of the workers behind them. Pure.

A mount knows how many bytes programs read and how many of them other nodes sent; only workers know what came from the
origin. Bytes of files that the kernel reads by itself (passthrough) are counted by nobody: the mount reckons them from
how often files were opened so, and from their sizes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, fields

from headrace.jobs.views import DataCost

READ_SECONDS = "headrace_read_seconds_sum"
ORIGIN_BYTES = "headrace_origin_bytes_total"
_OURS = "headrace_"
_MOST, _MOST_NAMES = 2.0**63, 4096


@dataclass(frozen=True, slots=True)
class Counters:
    """What grew since a process started. Of a mount all but `origin_bytes`, of a worker that alone."""

    read_bytes: float = 0.0
    far_bytes: float = 0.0
    """Those of them that came from workers of other nodes."""
    kernel_bytes: float = 0.0
    """Reckoned bytes that the kernel read from the cache by itself."""
    stalled_s: float = 0.0
    origin_bytes: float = 0.0

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(self._values(), other._values(), strict=True)))

    def since(self, before: Counters) -> Counters:
        """How much they grew. One that fell began anew at zero: all of it is growth."""
        pairs = zip(self._values(), before._values(), strict=True)
        return Counters(*(now - then if now >= then else now for now, then in pairs))

    def _values(self) -> tuple[float, ...]:
        return tuple(getattr(self, each.name) for each in fields(self))


def values_of(text: str) -> dict[str, float]:
    """The values of our metrics in OpenMetrics text by name, those of all labels together.

    What is no sample is passed over, and so is what nobody can have counted: whoever tells it may be another.
    """
    found: dict[str, float] = {}
    for line in io.StringIO(text):
        if not line.startswith(_OURS):
            continue
        name, _, rest = line.partition(" ") if "{" not in line else _labelled(line)
        try:
            value = float(rest.split(maxsplit=1)[0])
        except (ValueError, IndexError):
            continue
        is_known = name in found or len(found) < _MOST_NAMES
        if is_known and 0 <= value < _MOST:
            found[name] = found.get(name, 0.0) + value
    return found


def mount_counters(values: Mapping[str, float]) -> Counters:
    """Of the metrics of a mount."""

    def value(name: str) -> float:
        return values.get(f"headrace_{name}", 0.0)

    far = value("cluster_read_bytes_total") - value("cluster_own_node_bytes_total")
    return Counters(
        read_bytes=value("read_hit_bytes_total") + value("read_miss_bytes_total"),
        far_bytes=max(far, 0.0),
        kernel_bytes=value("passthrough_estimated_bytes_total"),
        stalled_s=values.get(READ_SECONDS, 0.0),
    )


def worker_counters(values: Mapping[str, float]) -> Counters:
    """Of the metrics of a worker."""
    return Counters(origin_bytes=values.get(ORIGIN_BYTES, 0.0))


def cost_of(grown: Counters, *, is_shared: bool = False) -> DataCost:
    """The cost, from how much all counters grew together.

    What came from the origin reached programs from other nodes and from their own in the same proportion as all bytes
    did. Workers fetch whole blocks, so more may come from the origin than was read.
    """
    read = grown.read_bytes + grown.kernel_bytes
    far = min(grown.far_bytes, grown.read_bytes)
    cached = max(read - grown.origin_bytes, 0.0)
    peer = cached * far / read if read else 0.0
    return DataCost(
        origin_bytes=round(grown.origin_bytes),
        peer_bytes=round(peer),
        local_bytes=round(cached - peer),
        stalled_s=grown.stalled_s,
        is_shared=is_shared,
        is_reckoned=grown.kernel_bytes > 0,
    )


def _labelled(line: str) -> tuple[str, str, str]:
    """Name, separator and rest of a sample with labels, whose values may hold anything."""
    name, _, rest = line.partition("{")
    return name, " ", rest.rpartition("}")[2]
