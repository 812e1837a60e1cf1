"""The CRDs: each kind's model as the structural schema that the API server checks, with columns and subresources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.api.columns import Column
from headrace.api.kinds import KINDS, Kind
from headrace.api.names import GROUP, VERSION

_DROPPED = frozenset({"title", "$defs", "default", "discriminator", "writeOnly"})
_EXACT = 2**53
"""The API server keeps bounds as floating-point numbers: beyond this they are rounded, the largest int64 to a negative
number. The format int64 says as much.
"""


def all_crds() -> dict[str, dict[str, Any]]:
    """By file name, such as `data.fluid.io_datasets.yaml`."""
    return {f"{GROUP}_{kind.plural}.yaml": crd(kind) for kind in KINDS.values() if not kind.is_core}


def crd(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    names: dict[str, Any] = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [_version(kind)]},
    }


def _version(kind: Kind) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if kind.scaled:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.currentWorkerNumberScheduled",
        }
    if kind.selector:
        subresources["scale"]["labelSelectorPath"] = ".status.selector"
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": schema_of(kind)},
        "subresources": subresources,
    }


def _column(column: Column) -> dict[str, Any]:
    written: dict[str, Any] = {"name": column.title, "type": column.type, "jsonPath": column.path}
    if column.priority:
        written["priority"] = column.priority
    return written


def schema_of(kind: Kind) -> dict[str, Any]:
    """The structural schema of a kind. Its metadata is the API server's own affair."""
    raw = kind.model.model_json_schema(by_alias=True, mode="validation")
    schema = _Inliner(raw.get("$defs", {})).structural(raw)
    schema["properties"]["metadata"] = {"type": "object"}
    for name in ("apiVersion", "kind"):
        schema["properties"][name] = {
            "type": "string",
            "description": schema["properties"][name]["description"],
        }
    required = [name for name in schema.pop("required", []) if name == "spec"]
    return schema | ({"required": required} if required else {})


class _Inliner:
    """JSON Schema as pydantic writes it, made structural: no references, no null, no closed objects."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def structural(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        schema = self._resolved(raw)
        written = {key: value for key, value in schema.items() if key not in _DROPPED}
        if _is_scalar_worth_telling(schema.get("default")):
            written["default"] = schema["default"]
        for bound in ("minimum", "maximum"):
            if abs(written.get(bound, 0)) > _EXACT:
                del written[bound]
        if "const" in written:
            written["enum"] = [written.pop("const")]
        if isinstance(written.get("additionalProperties"), Mapping):
            written["additionalProperties"] = self.structural(written["additionalProperties"])
        else:
            written.pop("additionalProperties", None)
        if "properties" in written:
            written["properties"] = {
                name: self.structural(each) for name, each in written["properties"].items()
            }
        if "items" in written:
            written["items"] = self.structural(written["items"])
        return written

    def _resolved(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The schema without `$ref` and without the alternative `null`; what stands beside them weighs more."""
        schema = dict(raw)
        alternatives = [each for each in schema.get("anyOf", []) if each.get("type") != "null"]
        if len(alternatives) == 1:
            del schema["anyOf"]
            return self._resolved({**alternatives[0], **schema})
        if "$ref" in schema:
            name = schema.pop("$ref").rpartition("/")[2]
            return self._resolved({**self._definitions[name], **schema})
        return schema


def _is_scalar_worth_telling(default: Any) -> bool:
    """True for defaults that the API server should write into objects; an empty one is the same as none."""
    return isinstance(default, str | int) and bool(default)
