"""Selection of objects by their labels and fields: `-l 'team=vision,tier in (gold,silver),!draft'`. Pure.

The grammar is kubectl's. Conditions stand between commas, and all of them must hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.api.json_paths import parse_json_path, text_of, value_of
from headrace.errors import ConfigError

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_LABEL = re.compile(
    rf"\s*(?:"
    rf"(?P<key>{_KEY})\s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<member>{_KEY})\s+(?P<word>in|notin)\s*\(\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)"
    rf"|(?P<absent>!?)\s*(?P<name>{_KEY})"
    rf")\s*(?:,|$)",
    re.ASCII,
)
_FIELD = re.compile(r"(?P<path>[^=!]+?)(?P<sign>==|=|!=)(?P<value>.*)", re.ASCII | re.DOTALL)
_FIELD_ROOTS = ("metadata", "spec", "status", "kind", "type", "reason", "involvedObject")
_LABEL_FORMS = "KEY=VALUE, KEY!=VALUE, 'KEY in (A,B)', 'KEY notin (A,B)', KEY or '!KEY'"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a label. Where a label is absent, NotIn holds, as it does for kubectl."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """True for labels that are meant."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """One condition on a field, such as status.phase."""

    path: tuple[str | int, ...]
    value: str
    equals: bool

    def holds(self, document: Mapping[str, Any]) -> bool:
        """True for an object that is meant. A field that is not there is an empty one."""
        found = value_of(document, self.path)
        return (("" if found is None else text_of(found)) == self.value) == self.equals


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions that all must hold; without any, every object is meant."""

    labels: tuple[Condition, ...] = ()
    fields: tuple[FieldCondition, ...] = ()

    def __bool__(self) -> bool:
        """True when it leaves anything out."""
        return bool(self.labels or self.fields)

    def fits_labels(self, labels: Mapping[str, str]) -> bool:
        """True when all conditions on labels hold."""
        return all(each.holds(labels) for each in self.labels)

    def fits(self, document: Mapping[str, Any]) -> bool:
        """True for an object that is meant."""
        labels = document.get("metadata", {}).get("labels") or {}
        return self.fits_labels(labels) and all(each.holds(document) for each in self.fields)


def parse_selector(labels: str | None, fields: str | None = None) -> Selector:
    """The selector of `-l` and `--field-selector`. Raises `ConfigError`."""
    return Selector(tuple(_label_conditions(labels or "")), tuple(_field_conditions(fields or "")))


def _label_conditions(text: str) -> Iterator[Condition]:
    place = 0
    while text[place:].strip():
        match = _LABEL.match(text, place)
        if match is None:
            raise ConfigError.of(
                f"'{text[place : place + 64].strip()}' is no condition on a label",
                hint=f"write {_LABEL_FORMS}",
            )
        yield _condition(match)
        place = match.end()


def _condition(match: re.Match[str]) -> Condition:
    if match["key"]:
        return Condition(
            match["key"], "NotIn" if match["sign"] == "!=" else "In", frozenset({match["value"]})
        )
    if match["member"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Condition(match["member"], "In" if match["word"] == "in" else "NotIn", values)
    return Condition(match["name"], "DoesNotExist" if match["absent"] else "Exists")


def _field_conditions(text: str) -> Iterator[FieldCondition]:
    for part in filter(str.strip, text.split(",")):
        match = _FIELD.fullmatch(part.strip())
        root = re.split(r"[.\[]", match["path"].strip().lstrip("."))[0] if match else ""
        if match is None or root not in _FIELD_ROOTS:
            raise ConfigError.of(
                f"'{part.strip()[:64]}' is no condition on a field",
                hint="write it like metadata.name=imagenet or status.phase!=Bound",
            )
        yield FieldCondition(
            parse_json_path(match["path"].strip()), match["value"].strip(), match["sign"] != "!="
        )
