"""YAML as configuration: the one mapping of a file, and the line on which each of its values stands.

Stricter than the streams of `yaml_streams`, by which it is read: the first fault is the error, and an alias is refused,
since none is a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError
from headrace.settings.yaml_streams import Place, StreamDocument, nearest_line, read_stream

LARGEST_BYTES = 1 << 20
_DEEPEST = 8


@dataclass(frozen=True)
class Document:
    """The content of a file, and on which line (from 1) each key and each item of a list stands."""

    path: Path
    content: dict[str, Any]
    lines: Mapping[Place, int]

    def where(self, place: Place) -> str:
        """`worker.yaml line 3`: the line of the nearest place around that has one."""
        line = nearest_line(self.lines, place)
        return str(self.path) if line is None else f"{self.path} line {line}"


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
    documents = read_stream(text, str(path), deepest=_DEEPEST, aliases=False)
    document = documents[0] if documents else StreamDocument({}, 1)
    faults = list(document.faults)
    if not isinstance(document.content, dict):
        faults.append((document.first_line, "KEY: VALUE is expected here"))
    if len(documents) > 1:
        faults.append((documents[1].first_line, "a second document begins here, and only one is read"))
    if faults:
        line, problem = faults[0]
        raise ConfigError.of(f"{path} line {line}: {problem}")
    return Document(path, document.content, document.lines)
