"""Kubernetes' rules for CRD schemas, and what a schema says of an object, as far as our CRDs use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

KEYWORDS = {
    "type", "description", "properties", "additionalProperties", "items", "required", "enum", "default", "format",
    "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "anyOf", "nullable",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
}  # fmt: skip
TYPES = {"object", "array", "string", "integer", "number", "boolean"}
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def structural_faults(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """What the API server would refuse in a schema."""
    for keyword in set(schema) - KEYWORDS:
        yield f"{path}: keyword {keyword}"
    preserved = schema.get("x-kubernetes-preserve-unknown-fields") is True
    if schema.get("x-kubernetes-int-or-string"):
        if "type" in schema or schema.get("anyOf", INT_OR_STRING) != INT_OR_STRING:
            yield f"{path}: int-or-string with a type or other alternatives"
    elif "anyOf" in schema:
        yield f"{path}: alternatives"
    elif schema.get("type") not in TYPES and not (preserved and "type" not in schema):
        yield f"{path}: type {schema.get('type')}"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}: properties beside additionalProperties"
    if "additionalProperties" in schema and not isinstance(schema["additionalProperties"], dict):
        yield f"{path}: additionalProperties is no schema"
    if ("properties" in schema or "additionalProperties" in schema) and schema.get("type") != "object":
        yield f"{path}: fields of a {schema.get('type')}"
    if (schema.get("type") == "array") != ("items" in schema):
        yield f"{path}: items and type array belong together"
    if set(schema.get("required", [])) - set(schema.get("properties", {})):
        yield f"{path}: unknown required field"
    if "default" in schema and list(value_faults(schema["default"], schema)):
        yield f"{path}: default does not fit"
    if schema.get("x-kubernetes-list-type") == "map":
        keys = schema["x-kubernetes-list-map-keys"]
        if set(keys) - set(schema["items"].get("required", [])):
            yield f"{path}: list keys must be required"
    if "pattern" in schema and "(?" in schema["pattern"]:
        yield f"{path}: pattern that RE2 may not know"
    for rule in schema.get("x-kubernetes-validations", []):
        yield from rule_faults(rule, schema, path)
    for name, each in schema.get("properties", {}).items():
        yield from structural_faults(each, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from structural_faults(schema[inner], f"{path}[]")


def rule_faults(rule: dict[str, str], schema: dict[str, Any], path: str) -> Iterator[str]:
    """Fields of the rule exist; what it goes through, and what it compares or splits there, is bounded."""
    if not rule["rule"].strip() or not rule["message"].strip() or "\n" in rule["message"]:
        yield f"{path}: rule without words"
    for chain in re.findall(
        r"\b(?:self|oldSelf)((?:\.\w+(?!\w*\())+)",
        re.sub(r"has\([^)]*\)|self[.\w]+\.size\(\)", "", rule["rule"]),
    ):
        place: Any = schema
        for name in chain.strip(".").split("."):
            if name == "metadata" or place is None:
                place = None
                break
            if name not in place.get("properties", {}):
                yield f"{path}: rule names {chain}"
                place = None
                break
            place = place["properties"][name]
        bounded = (
            place is None
            or place.get("type") not in {"array", "string"}
            or {"maxItems", "maxLength", "enum"} & set(place)
        )
        if not bounded:
            yield f"{path}: rule on {chain}, which has no bound"


def value_faults(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """What the API server would refuse in an object."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: neither number nor text"
        elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
            yield f"{path}: pattern"
        return
    types = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    wanted = schema.get("type")
    if wanted and (not isinstance(value, types[wanted]) or (wanted == "integer" and isinstance(value, bool))):
        yield f"{path}: not a {wanted}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: enum"
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 2**31):
            yield f"{path}: length"
        if not re.search(schema.get("pattern", ""), value):
            yield f"{path}: pattern"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: range"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 2**31):
            yield f"{path}: items"
        for number, each in enumerate(value):
            yield from value_faults(each, schema["items"], f"{path}[{number}]")
    if isinstance(value, dict):
        for name in set(schema.get("required", [])) - set(value):
            yield f"{path}.{name}: missing"
        for name, each in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if inner is not None:
                yield from value_faults(each, inner, f"{path}.{name}")
            elif (
                not schema.get("x-kubernetes-preserve-unknown-fields")
                and path + name != "metadata"
                and not path.startswith(".metadata")
            ):
                yield f"{path}.{name}: unknown"
