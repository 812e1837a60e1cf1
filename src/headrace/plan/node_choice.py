"""On which node a program best runs that reads datasets: where most of the data is, and fewest others are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.plan.node_names import natural_order

_QUARTERS = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node as a program sees it. `cached_share` is how much of the datasets' bytes its workers hold, 0 to 1."""

    name: str
    is_ready: bool = True
    is_allowed: bool = True
    workers: int = 0
    cached_share: float = 0.0
    users: int = 0


def choose_node(candidates: Iterable[Candidate]) -> str | None:
    """The best of those that are ready and allowed; `None` when there is none.

    A share counts in quarters: a little more data is not worth a crowd.
    """
    fitting = [each for each in candidates if each.is_ready and each.is_allowed]
    best = min(fitting, key=_rank, default=None)
    return best.name if best else None


def _rank(candidate: Candidate) -> tuple[int, int, int, list[tuple[int, str]]]:
    quarters = round(candidate.cached_share * _QUARTERS)
    return -quarters, -candidate.workers, candidate.users, natural_order(candidate.name)
