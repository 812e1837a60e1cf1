"""The reason why a check refused a value, in a sentence for its author: what is needed, and the bound in its own unit.

Only numbers are shown again: other values may be credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from headrace.settings.sizes import exact_size

_NEEDED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "string_unicode": "a text",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "KEY: VALUE pairs",
    "mapping_type": "KEY: VALUE pairs",
    "model_type": "KEY: VALUE pairs",
    "model_attributes_type": "KEY: VALUE pairs",
    "dataclass_type": "KEY: VALUE pairs",
    "json_invalid": "JSON",
    "json_type": "JSON",
    "bytes_type": "a text",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "is too little", "at least"),
    "greater_than": ("gt", "is too little", "more than"),
    "less_than_equal": ("le", "is too much", "at most"),
    "less_than": ("lt", "is too much", "less than"),
}
_LENGTHS = {
    "string_too_short": ("min_length", "is too short; at least {} characters"),
    "string_too_long": ("max_length", "is too long; at most {} characters"),
    "too_short": ("min_length", "has too few entries; at least {} needed"),
    "too_long": ("max_length", "has too many entries; at most {} allowed"),
}
_CHOICE = re.compile(r"\^\(([A-Za-z0-9|_-]+)\)\$")
_SECONDS = "_s"
_BYTES = "_bytes"


def first_fault(error: ValidationError) -> Mapping[str, Any]:
    """The first fault of a failed check, with all that `fault_text` wants of it."""
    return error.errors(include_url=False)[0]


def fault_text(fault: Mapping[str, Any]) -> str:
    """The text of one fault; the caller names the field."""
    kind, context = str(fault["type"]), fault.get("ctx") or {}
    if kind in _BOUNDS:
        return _out_of_bounds(kind, context, fault)
    if kind in _NEEDED:
        return f"{_NEEDED[kind]} is needed"
    if kind in _LENGTHS:
        return _wrong_length(kind, context)
    if kind in ("enum", "literal_error"):
        return f"must be one of {_words(str(context.get('expected', '')))}"
    if kind == "string_pattern_mismatch":
        return _wrong_form(str(context.get("pattern", "")))
    # A sentence of our own stands where a check of our own failed.
    return "is missing" if kind == "missing" else str(context.get("error", "cannot be used"))


def fault_hint(fault: Mapping[str, Any]) -> str | None:
    """The hint of one fault, where a check of our own gave one."""
    return getattr((fault.get("ctx") or {}).get("error"), "hint", None)


def _wrong_length(kind: str, context: Mapping[str, Any]) -> str:
    name, text = _LENGTHS[kind]
    length = context.get(name)
    return "must not be empty" if name == "min_length" and length == 1 else text.format(length)


def _out_of_bounds(kind: str, context: Mapping[str, Any], fault: Mapping[str, Any]) -> str:
    name, verdict, relation = _BOUNDS[kind]
    field = next((part for part in reversed(fault["loc"]) if isinstance(part, str)), "")
    value = fault.get("input")
    # A number that stood in a file or in a variable comes as its text.
    shown = f"{_with_unit(value, field)} " if isinstance(value, int | float) else ""
    return f"{shown}{verdict}; {relation} {_with_unit(context.get(name), field)}"


def _with_unit(value: Any, field: str) -> str:
    if isinstance(value, int) and field.endswith(_BYTES):
        return exact_size(value)
    if isinstance(value, int | float):
        return f"{value:g} s" if field.endswith(_SECONDS) else f"{value:.15g}"
    return str(value)


def _wrong_form(pattern: str) -> str:
    choice = _CHOICE.fullmatch(pattern)
    if choice is not None:
        return f"must be one of {', '.join(choice[1].split('|'))}"
    return "has characters, or a length, that are not allowed"


def _words(expected: str) -> str:
    return ", ".join(re.findall(r"'([^']*)'", expected)) or expected
