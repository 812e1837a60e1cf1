"""The gate of a job that waits for its data: how much of each dataset must be cached, and is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Warmth:
    """The cached share of one dataset."""

    dataset: str
    percent: float | None
    """None: nobody knows yet."""


def warmth_of(name: str, status: Mapping[str, Any] | None) -> Warmth:
    """The cached share in a Dataset's status."""
    states = (status or {}).get("cacheStates") or {}
    found = re.match(r"\d+(\.\d+)?", str(states.get("cachedPercentage") or ""))
    return Warmth(name, float(found.group()) if found else None)


def warmths_of(datasets: Iterable[Mapping[str, Any] | None]) -> list[Warmth]:
    """The same of Dataset objects, as far as there are any."""
    return [warmth_of(each["metadata"]["name"], each.get("status")) for each in datasets if each is not None]


def is_warm(wish: int, datasets: Sequence[Warmth]) -> bool:
    """True when each dataset is cached so far. Claims that are no datasets are always warm."""
    return all(each.percent is not None and each.percent >= wish for each in datasets)


def cold_words(wish: int, datasets: Sequence[Warmth]) -> str:
    """The data still missing from the cache, for a person; empty when nothing is."""
    cold = [each for each in datasets if each.percent is None or each.percent < wish]
    if not cold:
        return ""
    told = ", ".join(
        f"{each.dataset} {'?' if each.percent is None else f'{each.percent:g}'} %" for each in cold
    )
    return (
        f"it starts once {wish} % of its data is cached; so far: {told}. "
        "A DataLoad brings it in; `arena release` starts it at once"
    )
