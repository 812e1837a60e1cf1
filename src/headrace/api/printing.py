"""Tables of objects as `kubectl get` prints them. Pure: the time is handed in, the text is handed back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.api.columns import Column
from headrace.api.formats import format_age
from headrace.api.kinds import KINDS, Kind, kind_of
from headrace.api.times import parse_time
from headrace.api.writing import content_of

if TYPE_CHECKING:
    from headrace.api.kinds import Object

Content = Mapping[str, Any]

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
# kubectl's tabwriter: three blanks between columns, no column narrower than six with them.
_GAP = 3
_NARROWEST = 6
_INVALID = "<invalid>"
"""What kubectl prints for a value that makes no sense."""


def header(
    kind: Kind, *, wide: bool = False, with_namespace: bool = False, with_labels: bool = False
) -> list[str]:
    """The titles of the columns of a kind."""
    first = ["NAMESPACE"] if with_namespace and kind.namespaced else []
    last = ["LABELS"] if with_labels else []
    return [*first, "NAME", *(column.title.upper() for column in _shown(kind, wide)), *last]


def row(
    thing: Object | Content,
    now: datetime,
    *,
    wide: bool = False,
    with_namespace: bool = False,
    with_kind: bool = False,
    with_labels: bool = False,
) -> list[str]:
    """The values of the columns of an object; empty where nothing is known.

    Plain values are printed as they are: one that another release kept need not make sense to this one.
    """
    content = thing if isinstance(thing, Mapping) else content_of(thing)
    kind, metadata = KINDS[content["kind"]], content["metadata"]
    name = f"{kind.prefix}/{metadata['name']}" if with_kind else metadata["name"]
    cells = [metadata.get("namespace") or "default"] if with_namespace and kind.namespaced else []
    last = [labels_text(metadata.get("labels") or {})] if with_labels else []
    return [*cells, name, *(_cell(column, content, now) for column in _shown(kind, wide)), *last]


def labels_text(labels: Mapping[str, str]) -> str:
    """The cell under LABELS."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def get_text(
    things: Iterable[Object | Content],
    now: datetime,
    *,
    wide: bool = False,
    with_namespace: bool = False,
    with_labels: bool = False,
) -> str:
    """The output of `get`: a table for each kind, names with their kind if there are several."""
    by_kind: dict[str, list[Object | Content]] = {}
    for thing in things:
        kind = thing["kind"] if isinstance(thing, Mapping) else kind_of(thing).name
        by_kind.setdefault(kind, []).append(thing)
    several = len(by_kind) > 1
    tables = []
    options = {"wide": wide, "with_namespace": with_namespace, "with_labels": with_labels}
    for kind, members in by_kind.items():
        head = header(KINDS[kind], **options)
        tables.append(align([head, *(row(each, now, with_kind=several, **options) for each in members)]))
    return "\n\n".join(tables)


def align(rows: Sequence[Sequence[str]]) -> str:
    """Lines with aligned columns; the last column is not padded."""
    count = max((len(cells) for cells in rows), default=0)
    widths = [
        max(_NARROWEST, *(len(cells[number]) + _GAP for cells in rows if number < len(cells)))
        for number in range(count)
    ]
    return "\n".join(
        "".join(
            cell if number == len(cells) - 1 else cell.ljust(widths[number])
            for number, cell in enumerate(cells)
        )
        for cells in rows
    )


def _shown(kind: Kind, wide: bool) -> list[Column]:
    return [column for column in kind.columns if wide or not column.priority]


def _cell(column: Column, content: Mapping[str, Any], now: datetime) -> str:
    """One value. An object that another release kept may hold anything, and is printed as far as it goes."""
    try:
        return _value(column, content, now)
    except (TypeError, ValueError, AttributeError):
        return _INVALID


def _value(column: Column, content: Mapping[str, Any], now: datetime) -> str:
    if column.path.startswith("|"):
        return _WRITERS[column.path[1:]](content)
    value = value_at(content, column.path)
    if column.type == "date":
        return format_age(parse_time(value) if value is not None else None, now)
    return "" if value is None else str(value)


def value_at(content: Mapping[str, Any], path: str) -> Any:
    """The value at `.status.cacheStates.cached`; `None` if there is none."""
    value: Any = content
    for part in path.removeprefix(".").split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _modes(modes: Any) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes or ())


def _phase_or_terminating(content: Mapping[str, Any]) -> str:
    leaving = value_at(content, ".metadata.deletionTimestamp") is not None
    return "Terminating" if leaving else str(value_at(content, ".status.phase") or "")


def _claim(content: Mapping[str, Any]) -> str:
    claim = value_at(content, ".spec.claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _entries(content: Mapping[str, Any]) -> str:
    names = [name for field in ("data", "binaryData", "stringData") for name in content.get(field) or ()]
    return str(len(set(names)))


_WRITERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "secret_type": lambda content: content.get("type") or "Opaque",
    "entries": _entries,
    "volume_modes": lambda content: _modes(value_at(content, ".spec.accessModes")),
    "claim_modes": lambda content: _modes(value_at(content, ".status.accessModes")),
    "phase_or_terminating": _phase_or_terminating,
    "claim": _claim,
}
