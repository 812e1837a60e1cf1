"""The text of a failed check: the field, what was found, what is allowed, the nearest name.

Found values are shown where they are words of ours (enumerations), numbers, or of a closed form (sizes, schedules,
names). Never from maps (options, env, a Secret's data) or addresses: those may hold credentials.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from headrace.api.base import CrossFaultError, Place, yaml_names
from headrace.api.shapes import is_in_map, model_at
from headrace.settings.faults import fault_text

_WANTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "KEY: VALUE pairs",
    "model_type": "KEY: VALUE pairs",
    "model_attributes_type": "KEY: VALUE pairs",
    "mapping_type": "KEY: VALUE pairs",
}
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_LONGEST_LIST = 16


def explain(error: ValidationError, model: type[BaseModel]) -> list[tuple[Place, str]]:
    """Each fault of a failed check: the field it is about, and a sentence."""
    found: list[tuple[Place, str]] = []
    faults = error.errors(include_url=False)
    for fault in faults:
        if fault["type"] == "too_short" and _lacks_only_wrong_ones(fault["loc"], faults):
            continue
        place: Place = tuple(part for part in fault["loc"] if part != "[key]")
        cause = (fault.get("ctx") or {}).get("error")
        if isinstance(cause, CrossFaultError):
            found += [((*place, *each.place), each.problem) for each in cause.faults]
        else:
            found.append((place, _problem(fault, place, model)))
    return found


def _lacks_only_wrong_ones(place: Place, faults: Iterable[Mapping[str, Any]]) -> bool:
    """True for a list that counts as short because its entries are wrong, each of which is told by itself."""
    return any(len(fault["loc"]) > len(place) and fault["loc"][: len(place)] == place for fault in faults)


def path_text(place: Place) -> str:
    """`spec.mounts[0].options['fs.oss.endpoint']`."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part):
            text += f".{part}" if text else part
        else:
            text += f"['{part[:64]}']"
    return text


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that is most like this one, whatever the case and the dashes."""
    plain = {_plain(each): each for each in known if each}
    found = difflib.get_close_matches(_plain(word), plain, n=1, cutoff=cutoff)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def _problem(fault: Mapping[str, Any], place: Place, model: type[BaseModel]) -> str:  # noqa: PLR0911
    kind, value, context = str(fault["type"]), fault["input"], fault.get("ctx") or {}
    if kind == "extra_forbidden":
        return _unknown(place, model)
    if kind == "missing":
        return "is missing"
    if kind in {"enum", "literal_error"}:
        return _not_allowed(value, str(context.get("expected", "")), is_in_map(model, place))
    if kind in _WANTED:
        return _wrong_type(value, _WANTED[kind], is_in_map(model, place))
    if kind in _LIMITS:
        name, limit = _LIMITS[kind]
        return f"{value} is not allowed; allowed: {limit} {context.get(name)}"
    if kind in {"string_too_short", "too_short"}:
        return f"is too short; allowed: at least {_amount(kind, context.get('min_length'))}"
    if kind in {"string_too_long", "too_long"}:
        return f"is too long; allowed: at most {_amount(kind, context.get('max_length'))}"
    if kind == "value_error":
        return str(context.get("error", fault["msg"]))
    return "cannot be read" if kind == "string_unicode" else fault_text(fault)


def _amount(kind: str, count: Any) -> str:
    one, many = ("character", "characters") if kind.startswith("string") else ("entry", "entries")
    return f"{count} {one if count == 1 else many}"


def _unknown(place: Place, model: type[BaseModel]) -> str:
    around = model_at(model, place[:-1])
    known = list(yaml_names(around)) if around else []
    near = nearest(str(place[-1]), known)
    if near:
        return f"unknown field; did you mean '{near}'?"
    more = ", ..." if len(known) > _LONGEST_LIST else ""
    return f"unknown field; allowed here: {', '.join(known[:_LONGEST_LIST])}{more}"


def _not_allowed(value: Any, expected: str, secret: bool) -> str:
    allowed = re.findall(r"'([^']*)'", expected) or [expected]
    listed = ", ".join(each or '""' for each in allowed)
    if not isinstance(value, str):
        return _wrong_type(value, f"one of {listed}", secret)
    if secret:
        return f"is not allowed; allowed: {listed}"
    near = nearest(value, allowed, cutoff=0.5)
    hint = f"; did you mean {near}?" if near else ""
    return f"'{value[:64]}' is not allowed; allowed: {listed}{hint}"


def _wrong_type(value: Any, wanted: str, secret: bool) -> str:
    if isinstance(value, bool | int | float):
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        name = "true or false" if isinstance(value, bool) else "a number"
        quoted = "in quotes" if secret else f'"{shown}"'
        advice = f": write {'it ' if secret else ''}{quoted}" if wanted == "a text" else ""
        return f"is {name if secret else shown}; {wanted} is needed{advice}"
    if value is None:
        return f"is empty; {wanted} is needed" + (': write "" for an empty one' if wanted == "a text" else "")
    return f"is {_kind_of(value)}; {wanted} is needed"


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list | tuple) else "KEY: VALUE pairs"
