"""Several YAML documents in one text, read and written: plain values, and the line on which each of them stands. The
only module that imports yaml.

For texts of strangers: size, depth, and what aliases may grow to are bounded, and a key that stands twice is a fault.
All faults of a document are told, not only the first. Configuration of one process is read by `yaml_files`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from headrace.errors import ConfigError

LARGEST_BYTES = 8 << 20
_DEEPEST = 64
_MOST_VALUES = 500_000
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp")
)
_MERGE_TAG = "tag:yaml.org,2002:merge"

# What readers of other versions of YAML take for a number, beside what PyYAML itself does.
_NUMBER = re.compile(r"[-+]?[0-9._:]+([eE][-+]?[0-9]+)?|[-+]?0[xob][0-9a-fA-F_]+")

# What YAML 1.1 takes for the end of a line, and YAML 1.2 does not.
_OTHER_LINE_ENDS = "\x85\u2028\u2029"

# libyaml is ten times faster; it is missing only where PyYAML was built without it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Place = tuple[str | int, ...]
"""Where a value stands: keys and positions from the top of its document."""


@dataclass
class StreamDocument:
    """One document: its content, the lines (from 1) of keys and items, and what is wrong with it as YAML."""

    content: Any
    first_line: int
    lines: dict[Place, int] = field(default_factory=dict)
    faults: list[tuple[int, str]] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest one around it."""
        return nearest_line(self.lines, place) or self.first_line

    def parts(self, key: str) -> list[StreamDocument]:
        """The items of a list at the top of this document, as documents of their own; faults stay with the first."""
        items = self.content[key]
        inside: list[dict[Place, int]] = [{} for _ in items]
        for place, line in self.lines.items():
            if place[0] == key and len(place) > 2:
                inside[int(place[1])][place[2:]] = line
        found = [
            StreamDocument(item, self.line((key, number)), lines)
            for number, (item, lines) in enumerate(zip(items, inside, strict=True))
        ]
        for part in found[:1]:
            part.faults = self.faults
        return found


def nearest_line(lines: Mapping[Place, int], place: Place) -> int | None:
    """The line of a place, or of the nearest one around it that has a line."""
    return next(
        (lines[place[:length]] for length in range(len(place), 0, -1) if place[:length] in lines), None
    )


def read_stream(
    text: str, source: str, *, deepest: int = _DEEPEST, aliases: bool = True
) -> list[StreamDocument]:
    """The documents that are not empty. Raises `ConfigError` for what is no YAML at all, or too large."""
    if len(text) > LARGEST_BYTES or len(text.encode("utf-8", "surrogatepass")) > LARGEST_BYTES:
        raise ConfigError.of(
            f"{source} is larger than {LARGEST_BYTES >> 20} MiB", hint="split it into several files"
        )
    try:
        _check_events(text, source, deepest, aliases=aliases)
        nodes = [node for node in yaml.compose_all(text, Loader=_Loader) if node is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError.of(f"{source} line {line}: {error.problem or 'not valid YAML'}") from None
    except (yaml.YAMLError, UnicodeError):
        raise ConfigError.of(
            f"{source} is not valid YAML: it holds a character that no text file holds"
        ) from None
    budget = _Budget(_MOST_VALUES)
    documents = [_read(node, budget) for node in nodes]
    if budget.spent:
        raise ConfigError.of(
            f"{source} holds more than {_MOST_VALUES} values, those of aliases included",
            hint="split it into several files",
        )
    return [document for document in documents if document.content is not None or document.faults]


def write_stream(contents: Iterable[Mapping[str, Any]]) -> str:
    """The documents as one text, keys in their order."""
    return yaml.dump_all(
        contents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=10_000
    )


@dataclass
class _Budget:
    left: int

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0

    @property
    def spent(self) -> bool:
        return self.left < 0


def _check_events(text: str, source: str, deepest: int, *, aliases: bool) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise ConfigError.of(f"{source} line {_line(event)}: an alias (*name) is not a setting")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > deepest:
            raise ConfigError.of(f"{source} line {_line(event)}: nested too deeply")


def _read(node: yaml.Node, budget: _Budget) -> StreamDocument:
    document = StreamDocument(None, _line(node))
    document.content = _Values(document, budget).value_of(node, ())
    return document


class _Values:
    """Plain values of one document's nodes; what is wrong goes into the document's faults."""

    def __init__(self, document: StreamDocument, budget: _Budget) -> None:
        self._document = document
        self._budget = budget
        self._scalars = yaml.SafeLoader("")

    def value_of(self, node: yaml.Node, place: Place) -> Any:
        if not self._budget.take():
            return None
        if len(place) > _DEEPEST:
            return self._fault(node, "nested too deeply")
        if isinstance(node, yaml.MappingNode):
            return self._mapping_of(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self._item_of(item, (*place, number)) for number, item in enumerate(node.value)]
        return self._scalar_of(node)

    def _mapping_of(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(key_node, "a key must be a word")
            elif key_node.tag == _MERGE_TAG:
                self._fault(key_node, "a merge key (<<) is not read: write the keys out")
            elif key in values:
                self._fault(key_node, f"'{key[:64]}' is set a second time")
            else:
                self._document.lines.setdefault((*place, key), _line(key_node))
                values[key] = self.value_of(value_node, (*place, key))
        return values

    def _item_of(self, node: yaml.Node, place: Place) -> Any:
        self._document.lines.setdefault(place, _line(node))
        return self.value_of(node, place)

    def _scalar_of(self, node: yaml.Node) -> Any:
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        if node.tag not in _PLAIN_TAGS:
            return self._fault(node, "this value cannot be read: write it in quotes, without a tag")
        try:
            value = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError):
            return self._fault(node, "this value cannot be read: write it in quotes")
        if isinstance(value, float) and not math.isfinite(value):
            return self._fault(node, "this number has no end: write it in quotes if it is a text")
        return value

    def _fault(self, node: yaml.Node, problem: str) -> None:
        self._document.faults.append((_line(node), problem))


class _Dumper(yaml.SafeDumper):
    """Texts that some reader of YAML takes for a number are quoted, lists stand below their key with an indent."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _NUMBER.fullmatch(text) or any(end in text for end in _OTHER_LINE_ENDS) else None
    if "\n" in text and style is None and all(line == line.rstrip() for line in text.split("\n")):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _write_text)


def _line(place: yaml.Node | yaml.Event) -> int:
    return int(place.start_mark.line) + 1 if place.start_mark else 1
