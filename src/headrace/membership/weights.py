"""A worker's weight: its capacity in steps of 5 %, so that a quota that moves a little does not move blocks."""

from __future__ import annotations

import math

STEP = 1.05
# A weight is up to half a step from its capacity when it is chosen, and bears a step of change in either direction.
_BEARS = STEP**1.5


def settled_weight(weight: int, capacity_bytes: int) -> int:
    """The weight to go on with: the one at hand after small changes of the capacity, else the nearest step."""
    if capacity_bytes > 0 and weight > 0 and weight / _BEARS <= capacity_bytes <= weight * _BEARS:
        return weight
    return nearest_step(capacity_bytes)


def nearest_step(capacity_bytes: int) -> int:
    """The power of 1.05 nearest to `capacity_bytes`, at most 2.5 % away from it; 0 for 0."""
    if capacity_bytes <= 0:
        return 0
    return round(STEP ** round(math.log(capacity_bytes, STEP)))
