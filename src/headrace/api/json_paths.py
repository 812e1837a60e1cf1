"""Paths into objects as kubectl writes them: `{.status.phase}`, `{.spec.mounts[0].name}`. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.errors import ConfigError

_STEP = re.compile(r"\.(?P<field>(?:[A-Za-z0-9_-]|\\.)+)|\[(?P<place>-?\d+)\]|\['(?P<key>[^']+)'\]")

Path = tuple[str | int, ...]


def parse_json_path(text: str) -> Path:
    """The steps of a path; braces and the first dot may be left out. Raises `ConfigError`."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    inner = inner.removeprefix("$")
    if not inner.startswith((".", "[")):
        inner = f".{inner}"
    steps: list[str | int] = []
    place = 0
    while place < len(inner):
        match = _STEP.match(inner, place)
        if match is None:
            raise ConfigError.of(
                f"'{text[:128]}' is not a path into an object", hint="write it like {.status.phase}"
            )
        steps.append(_step(match))
        place = match.end()
    return tuple(steps)


def value_of(content: Any, path: Path) -> Any:
    """The value there; `None` if there is none."""
    for step in path:
        if isinstance(step, int):
            content = (
                content[step] if isinstance(content, list) and -len(content) <= step < len(content) else None
            )
        else:
            content = content.get(step) if isinstance(content, Mapping) else None
    return content


def text_of(value: Any) -> str:
    """A value as it is printed and compared: texts as they are, all else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _step(match: re.Match[str]) -> str | int:
    if match["place"] is not None:
        return int(match["place"])
    return match["key"] or re.sub(r"\\(.)", r"\1", match["field"])
