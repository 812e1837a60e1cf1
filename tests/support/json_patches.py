"""JSON Patch as RFC 6902 has it, as far as `add` goes, and strict: what the RFC calls an error is one here."""

from __future__ import annotations

import copy
from typing import Any


def patched(document: Any, operations: Any) -> Any:
    """The document after the operations; the given one stays as it is."""
    found = copy.deepcopy(document)
    for operation in operations:
        if set(operation) != {"op", "path", "value"} or operation["op"] != "add":
            raise ValueError(f"not an add: {operation}")
        *above, last = (_unescaped(each) for each in _segments(operation["path"]))
        parent = found
        for segment in above:
            parent = parent[int(segment)] if isinstance(parent, list) else parent[segment]
        _add(parent, last, copy.deepcopy(operation["value"]))
    return found


def _segments(path: str) -> list[str]:
    if not path.startswith("/"):
        raise ValueError(f"not a path: {path}")
    return path[1:].split("/")


def _unescaped(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~")


def _add(parent: Any, last: str, value: Any) -> None:
    if isinstance(parent, list):
        position = len(parent) if last == "-" else int(last)
        if not 0 <= position <= len(parent):
            raise IndexError(last)
        parent.insert(position, value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise TypeError(f"{last} is below no container")
