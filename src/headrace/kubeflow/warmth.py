"""Whether a job's data is warm enough for it to start. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Warmth:
    """How much of one dataset is cached."""

    dataset: str
    percent: float | None
    """None: nobody knows yet."""


def warmth_of(dataset: Mapping[str, Any]) -> Warmth:
    """What a Dataset's status says."""
    states = (dataset.get("status") or {}).get("cacheStates") or {}
    found = re.match(r"\d+(\.\d+)?", str(states.get("cachedPercentage") or ""))
    return Warmth(dataset["metadata"]["name"], float(found.group()) if found else None)


def is_warm(wish: int, datasets: Sequence[Warmth]) -> bool:
    """True when each dataset is cached so far. Claims that are no datasets are always warm."""
    return all(each.percent is not None and each.percent >= wish for each in datasets)


def cold_words(wish: int, datasets: Sequence[Warmth]) -> str:
    """What is still lacking, for a person; empty when nothing is."""
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
