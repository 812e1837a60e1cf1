"""The order in which a training loop will read files, as plain functions of seed, epoch, rank and worker."""

from __future__ import annotations

import random
from collections.abc import Sequence


def epoch_order(count: int, *, seed: int, epoch: int, shuffle: bool) -> list[int]:
    """Every index below `count` once; the same order in every process for the same seed and epoch."""
    order = list(range(count))
    if shuffle:
        # Not for secrets: it has to be the same everywhere.
        random.Random(f"headrace {seed} {epoch}").shuffle(order)  # noqa: S311
    return order


def shard(order: Sequence[int], *, index: int, count: int) -> Sequence[int]:
    """The part of an order that worker `index` of `count` reads: every `count`-th, so that all progress together."""
    if not 0 <= index < count:
        raise ValueError(f"worker {index} of {count}")
    return order[index::count]


def flatten(batches: Sequence[object]) -> list[int]:
    """The indices of a sampler's items, which are indices or batches of indices, in reading order."""
    flat: list[int] = []
    for item in batches:
        if isinstance(item, (list, tuple)):
            flat.extend(flatten(item))
        else:
            flat.append(int(item))  # type: ignore[call-overload]
    return flat
