"""Names of nodes as people read them: in their natural order, and not too many."""

from __future__ import annotations

import re
from collections.abc import Iterable


def shown_names(names: Iterable[str]) -> str:
    """The first names of a list, in their order, and how many more there are."""
    ordered = sorted(names, key=natural_order)
    more = f" and {len(ordered) - 5} more" if len(ordered) > 5 else ""
    return ", ".join(ordered[:5]) + more


def natural_order(name: str) -> list[tuple[int, str]]:
    """A key by which node-2 comes before node-10."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
