"""What `generate.py` writes of the API's models: the CRDs, and the parts of the page that names every field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.api.columns import Column
from headrace.api.crd import all_crds, schema_of
from headrace.api.ignored import IGNORED
from headrace.api.kinds import KINDS, Kind
from headrace.api.names import API_VERSION
from headrace.api.untried import is_untried
from headrace.settings.yaml_streams import write_stream

CRD_NOTE = "# Written by tools/generate.py from headrace.api. Change the models, then run `make gen`.\n"


def crds() -> dict[str, str]:
    """The CRDs by file name."""
    return {name: CRD_NOTE + write_stream([crd]) for name, crd in all_crds().items()}


def reference() -> list[str]:
    """The parts of the page: for each kind its names, columns, fields, rules, and the fields without effect."""
    parts = [
        "# Objects",
        f"The objects of `{API_VERSION}`, as `headrace apply` and Kubernetes accept them. For `headrace apply`, a file "
        "may also hold Secrets, ConfigMaps, PersistentVolumes and PersistentVolumeClaims of Kubernetes. An unknown "
        "field is an error. The same models write `deploy/crds`.",
        "On Kubernetes all of these kinds work today; the few differences from one machine are in "
        "[datasets.md](../datasets.md#on-kubernetes). Fields that have no effect on either are listed with each kind. "
        "A field with † has an effect that no test has seen on a real Kubernetes yet; all others of a spec are used "
        "there.",
    ]
    for kind in KINDS.values():
        if not kind.is_core:
            parts += kind_parts(kind)
    return parts


def kind_parts(kind: Kind) -> list[str]:
    """One kind."""
    schema = schema_of(kind)
    parts = [f"## {kind.name}", f"{schema['description']}", names_of(kind), columns_of(kind.columns)]
    for part in ("spec", "status"):
        rows = [
            (name, kind_of, meaning + mark_of(kind, name)) for name, kind_of, meaning in rows_of(schema, part)
        ]
        parts += [f"### {kind.name} {part}", table(("field", "type", "meaning"), rows)]
    rules = list(dict.fromkeys(rules_in(schema)))
    if rules:
        parts += [
            f"### {kind.name}: refused by the API server",
            "\n".join(f"- {rule[0].upper()}{rule[1:]}." for rule in rules),
        ]
    ignored = IGNORED[kind.name]
    if ignored:
        rows = [(f"`{path}`", why) for path, why in ignored.items()]
        parts += [f"### {kind.name}: accepted without effect", table(("field", "why"), rows)]
    return parts


def rows_of(schema: Mapping[str, Any], part: str) -> list[tuple[str, str, str]]:
    """The fields of spec or status."""
    return field_rows(schema["properties"][part], part)


def mark_of(kind: Kind, name: str) -> str:
    """What stands behind a field that no test uses on a real cluster."""
    path = name.strip("`")
    plain = path.replace("[]", "")
    ignored = (each.replace("[]", "") for each in IGNORED[kind.name])
    if any(plain == each or plain.startswith(f"{each}.") for each in ignored):
        return ""
    return " †" if is_untried(kind.name, path) else ""


def names_of(kind: Kind) -> str:
    """`Plural datasets, short name dataset, category fluid.`"""
    words = [f"Plural `{kind.plural}`"]
    if kind.short_names:
        words.append(f"short name {', '.join(f'`{name}`' for name in kind.short_names)}")
    if kind.categories:
        words.append(f"category {', '.join(f'`{name}`' for name in kind.categories)}")
    if kind.scaled:
        words.append("can be scaled")
    return ", ".join(words) + "."


def columns_of(columns: tuple[Column, ...]) -> str:
    """The columns that `get` prints."""
    titles = [f"{column.title.upper()}{' (wide)' if column.priority else ''}" for column in columns]
    return f"Columns: NAME, {', '.join(titles)}."


def field_rows(schema: Mapping[str, Any], path: str) -> list[tuple[str, str, str]]:
    """Every field at and below a place."""
    rows = []
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        inner = field.get("items", field)
        here = f"{path}.{name}{'[]' if 'items' in field else ''}"
        needed = " (needed)" if name in required else ""
        rows.append((f"`{here}`", type_of(field), field.get("description", "") + needed + default_of(field)))
        rows += field_rows(inner, here)
    return rows


def type_of(schema: Mapping[str, Any]) -> str:
    """The type of a field, with what it allows."""
    if "items" in schema:
        return f"list of {type_of(schema['items'])}"
    if "enum" in schema:
        return ", ".join(f"`{value}`" if value else '`""`' for value in schema["enum"])
    if "additionalProperties" in schema:
        return f"map to {type_of(schema['additionalProperties'])}"
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if schema.get("format") == "date-time":
        return "time"
    return {"string": "text", "boolean": "true or false", "integer": "number"}.get(
        schema["type"], "object"
    ) + span_of(schema)


def span_of(schema: Mapping[str, Any]) -> str:
    """` from 1` of a number, where it matters."""
    return f" from {schema['minimum']}" if schema.get("minimum", 0) > 0 else ""


def default_of(schema: Mapping[str, Any]) -> str:
    """`; default Once`."""
    if "default" not in schema:
        return ""
    default = schema["default"]
    return f"; default `{str(default).lower() if isinstance(default, bool) else default}`"


def rules_in(schema: Mapping[str, Any]) -> list[str]:
    """The messages of all rules in a schema."""
    found = [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]
    for field in schema.get("properties", {}).values():
        found += rules_in(field.get("items", field))
    return found


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
