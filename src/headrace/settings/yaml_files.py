"""YAML as configuration: plain values, and the line on which each of them stands. The only module that imports yaml.

Stricter than YAML itself: a key that stands twice, an alias and a tag are refused, since none of them is a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.errors import ConfigError

LARGEST_BYTES = 1 << 20
_DEEPEST = 8

Place = tuple[str | int, ...]
"""Where a value stands: keys and positions from the top."""


@dataclass(frozen=True)
class Document:
    """The content of a file, and on which line (from 1) each key and each item of a list stands."""

    path: Path
    content: dict[str, Any]
    lines: Mapping[Place, int]

    def where(self, place: Place) -> str:
        """`worker.yaml line 3`: the line of the nearest place around that has one."""
        for length in range(len(place), -1, -1):
            line = self.lines.get(place[:length])
            if line is not None:
                return f"{self.path} line {line}"
        return str(self.path)


def read_document(path: Path) -> Document:
    """The file's top mapping. Raises `ConfigError` with the line of the fault."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError.of(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > LARGEST_BYTES:
        raise ConfigError.of(f"{path} is larger than {LARGEST_BYTES} bytes: no configuration of a role")
    try:
        return parse_document(path, raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError.of(f"{path} is not text") from None


def parse_document(path: Path, text: str) -> Document:
    """The same for a text that was read already."""
    loader = _Loader(path, text)
    node = loader.document()
    lines: dict[Place, int] = {}
    content = {} if node is None else _Values(loader, lines).mapping_of(node, ())
    return Document(path, content, lines)


class _Loader:
    """Nodes of one document, with every fault of the parser as one line."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._text = text

    def document(self) -> yaml.Node | None:
        try:
            self._refuse_aliases()
            node: yaml.Node | None = yaml.compose(self._text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            raise self.fault(line, error.problem or "not valid YAML") from None
        except yaml.YAMLError:
            raise ConfigError.of(
                f"{self.path} is not valid YAML: a character that no text file holds"
            ) from None
        except RecursionError:
            raise ConfigError.of(f"{self.path} is nested too deeply") from None
        return node

    def _refuse_aliases(self) -> None:
        depth = 0
        for event in yaml.parse(self._text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise self.fault(_line(event), "an alias (*name) is not a setting")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise self.fault(_line(event), "nested too deeply")

    def fault(self, line: int, problem: str) -> ConfigError:
        return ConfigError.of(f"{self.path} line {line}: {problem}")


class _Values:
    """Plain values of nodes, and their lines."""

    def __init__(self, loader: _Loader, lines: dict[Place, int]) -> None:
        self._loader = loader
        self._lines = lines
        self._scalars = yaml.SafeLoader("")

    def mapping_of(self, node: yaml.Node, place: Place) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise self._loader.fault(_line(node), "KEY: VALUE is expected here")
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._loader.fault(_line(key_node), "a key must be a word")
            if key in values:
                raise self._loader.fault(_line(key_node), f"'{key}' is set a second time")
            self._lines[(*place, key)] = _line(key_node)
            values[key] = self._value_of(value_node, (*place, key))
        return values

    def _value_of(self, node: yaml.Node, place: Place) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.mapping_of(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self._item_of(item, (*place, number)) for number, item in enumerate(node.value)]
        return self._scalar_of(node)

    def _item_of(self, node: yaml.Node, place: Place) -> Any:
        self._lines[place] = _line(node)
        return self._value_of(node, place)

    def _scalar_of(self, node: yaml.Node) -> Any:
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError):
            raise self._loader.fault(_line(node), "this value cannot be read; write it in quotes") from None


def _line(place: yaml.Node | yaml.Event) -> int:
    return int(place.start_mark.line) + 1 if place.start_mark else 1
