"""Three ways become one, as `kubectl apply` does it. Pure.

What the file says now wins. What it said the last time and does not say now is taken away. All else stays: it was
somebody else's to say. Lists are taken whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]


def three_way_merge(live: Values, last: Values, wanted: Values) -> dict[str, Any]:
    """What `live` becomes when a file that said `last` says `wanted`."""
    merged = {key: value for key, value in live.items() if key in wanted or key not in last}
    for key, value in wanted.items():
        merged[key] = _merged(live.get(key), last.get(key), value)
    return merged


def patched(live: Values, patch: Values) -> dict[str, Any]:
    """What a JSON merge patch (RFC 7386) makes of `live`: `null` takes a value away."""
    result = dict(live)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = patched(_values(live.get(key)), value)
        else:
            result[key] = value
    return result


def difference(before: Values, after: Values) -> dict[str, Any]:
    """The JSON merge patch that makes `after` of `before`. Neither may hold a `null`."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch


def _merged(live: Any, last: Any, wanted: Any) -> Any:
    if not isinstance(wanted, Mapping):
        return wanted
    return three_way_merge(_values(live), _values(last), wanted)


def _values(value: Any) -> Values:
    return value if isinstance(value, Mapping) else {}
