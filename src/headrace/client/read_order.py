"""The order in which a training loop will read files, as plain functions of seed, epoch, rank and worker."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["epoch_order", "flatten", "shard"]


def epoch_order(count: int, *, seed: int, epoch: int, shuffle: bool) -> list[int]:
    """The indices 0 to `count` - 1, each once; for one seed and epoch the same order in every process.

    Without `shuffle`, in ascending order.
    """
    order = list(range(count))
    if shuffle:
        # Not for secrets: it has to be the same everywhere.
        random.Random(f"headrace {seed} {epoch}").shuffle(order)  # noqa: S311
    return order


def shard(order: Sequence[int], *, index: int, count: int) -> Sequence[int]:
    """The part of an order that worker `index` of `count` reads: every `count`-th item, so that all workers progress
    together.

    The parts differ in length by one at most. Raises `ValueError` unless 0 <= `index` < `count`.
    """
    if not 0 <= index < count:
        raise ValueError(f"worker {index} of {count}")
    return order[index::count]


def flatten(batches: Sequence[object]) -> list[int]:
    """The indices of a sampler's items (indices, or batches of indices), in the order in which they are read."""
    flat: list[int] = []
    for item in batches:
        if isinstance(item, (list, tuple)):
            flat.extend(flatten(item))
        else:
            flat.append(int(item))  # type: ignore[call-overload]
    return flat
