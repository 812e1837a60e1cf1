"""Labels and taints of nodes as people write them: `gpu=v100`, `node-2:disk=ssd`, `gpu=v100:NoSchedule`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.errors import ConfigError
from headrace.local.protocol.messages import TaintLine

_KEY = r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_NODE = r"(?:(?P<node>[a-z0-9-]+):)?"
_LABEL = re.compile(rf"{_NODE}(?P<key>{_KEY})=(?P<value>{_VALUE})")
_EFFECTS = "NoSchedule|PreferNoSchedule|NoExecute"
_TAINT = re.compile(rf"{_NODE}(?P<key>{_KEY})(?:=(?P<value>{_VALUE}))?:(?P<effect>{_EFFECTS})")
_UNTAINT = re.compile(rf"(?P<key>{_KEY})(?:=(?P<value>{_VALUE}))?(?::(?P<effect>{_EFFECTS}))?-")


def parse_labels(words: Iterable[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Labels of all nodes, and of single ones. Raises `ConfigError`."""
    shared: dict[str, str] = {}
    of_nodes: dict[str, dict[str, str]] = {}
    for word in words:
        match = _LABEL.fullmatch(word)
        if match is None:
            raise ConfigError.of(f"'{word[:128]}' is not a label", hint="write KEY=VALUE, or NODE:KEY=VALUE")
        where = of_nodes.setdefault(match["node"], {}) if match["node"] else shared
        where[match["key"]] = match["value"]
    return shared, of_nodes


def parse_taints(
    words: Iterable[str],
) -> tuple[tuple[TaintLine, ...], dict[str, tuple[TaintLine, ...]]]:
    """Taints of all nodes, and of single ones. Raises `ConfigError`."""
    shared: tuple[TaintLine, ...] = ()
    of_nodes: dict[str, tuple[TaintLine, ...]] = {}
    for word in words:
        match = _TAINT.fullmatch(word)
        if match is None:
            raise _no_taint(word, "[NODE:]KEY[=VALUE]:EFFECT")
        if match["node"]:
            of_nodes[match["node"]] = (*of_nodes.get(match["node"], ()), _line(match))
        else:
            shared = (*shared, _line(match))
    return shared, of_nodes


def parse_taint_changes(words: Iterable[str]) -> tuple[tuple[TaintLine, ...], tuple[TaintLine, ...]]:
    """Taints to add, and, of words with a minus at the end, to take away. Raises `ConfigError`."""
    added, removed = [], []
    for word in words:
        match, gone = _TAINT.fullmatch(word), _UNTAINT.fullmatch(word)
        if match is not None and not match["node"]:
            added.append(_line(match))
        elif gone is not None:
            removed.append(_line(gone))
        else:
            raise _no_taint(word, "KEY[=VALUE]:EFFECT, or KEY[:EFFECT]- to take it away")
    return tuple(added), tuple(removed)


def _line(match: re.Match[str]) -> TaintLine:
    effect: str = match["effect"] or ""
    return TaintLine(key=match["key"], value=match["value"] or "", effect=effect)  # type: ignore[arg-type]


def _no_taint(word: str, form: str) -> ConfigError:
    effects = _EFFECTS.replace("|", ", ")
    return ConfigError.of(f"'{word[:128]}' is not a taint", hint=f"write {form}; effects are {effects}")
