"""JSON merge patches (RFC 7386): from what is to what shall be, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]


def patched(live: Values, patch: Values) -> dict[str, Any]:
    """The result of a patch on `live`: `null` takes a value away."""
    result = dict(live)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            known = live.get(key)
            result[key] = patched(known if isinstance(known, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def difference(before: Values, after: Values) -> dict[str, Any]:
    """The patch that makes `after` of `before`; empty when they are the same. Neither may hold a `null`."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        known = before.get(key)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inner := difference(known, value):
                patch[key] = inner
        elif key not in before or known != value:
            patch[key] = value
    return patch
