"""Three ways become one, as `kubectl apply` does it. Pure.

The present content of the file wins. A field that the file had the last time and has no more is removed. All else
stays: it was somebody else's to say. Lists are taken whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]


def three_way_merge(live: Values, last: Values, wanted: Values) -> dict[str, Any]:
    """The merge of `live` with a file that said `last` and says `wanted`."""
    merged = {key: value for key, value in live.items() if key in wanted or key not in last}
    for key, value in wanted.items():
        merged[key] = _merged(live.get(key), last.get(key), value)
    return merged


def _merged(live: Any, last: Any, wanted: Any) -> Any:
    if not isinstance(wanted, Mapping):
        return wanted
    return three_way_merge(_values(live), _values(last), wanted)


def _values(value: Any) -> Values:
    return value if isinstance(value, Mapping) else {}
