"""Objects that are to go. Pure."""

from __future__ import annotations

from headrace.operator.mirror import Content


def is_leaving(content: Content) -> bool:
    """True when its deletion was asked for."""
    return bool(content["metadata"].get("deletionTimestamp"))
