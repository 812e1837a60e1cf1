"""The CRDs follow Kubernetes' rules, print the columns in order, and accept what the models accept."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from api_objects import objects
from crd_schemas import structural_faults, value_faults
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.api.crd import all_crds, crd, schema_of
from headrace.api.kinds import KINDS
from headrace.api.shapes import fields_below
from headrace.settings.yaml_streams import read_stream

HERE = Path(__file__).parent
OURS = [name for name, kind in KINDS.items() if not kind.is_core]


@functools.cache
def schema_named(name: str) -> dict[str, Any]:
    """Of a kind; made by the one runner that needs it."""
    return schema_of(KINDS[name])


@pytest.mark.parametrize("name", OURS)
def test_the_schema_is_structural_and_its_rules_are_bounded(name: str) -> None:
    schema = schema_named(name)
    assert list(structural_faults(schema)) == []
    assert schema["type"] == "object"
    assert schema["properties"]["metadata"] == {"type": "object"}


@pytest.mark.parametrize("name", OURS)
def test_every_field_is_described(name: str) -> None:
    bare = [path for path, field, _ in fields_below(KINDS[name].model) if not field.description]
    assert bare == []


COLUMNS = {
    "Dataset": "Ufs Total Size|Cached|Cache Capacity|Cached Percentage|Phase|HCFS URL:10|TOTAL FILES:11|"
    "CACHE HIT RATIO:10|Age",
    "AlluxioRuntime": "Ready Masters:10|Desired Masters:10|Master Phase|Ready Workers:10|Desired Workers:10|"
    "Worker Phase|Ready Fuses:10|Desired Fuses:10|Fuse Phase|API Gateway:10|Age",
    "JindoRuntime": "Ready Masters:10|Desired Masters:10|Master Phase|Ready Workers:10|Desired Workers:10|"
    "Worker Phase|Ready Fuses:10|Desired Fuses:10|Fuse Phase|Age",
    "DataLoad": "Dataset|Phase|Age|Duration",
    "DataMigrate": "Phase|Age|Duration",
    "DataProcess": "Dataset|Phase|Age|Duration",
    "DataBackup": "Dataset|Phase|Path|NodeName|Duration|Age",
}


@pytest.mark.parametrize("name", OURS)
def test_columns_are_in_fluids_order_and_point_at_fields(name: str) -> None:
    columns = crd(KINDS[name])["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = "|".join(c["name"] + (f":{c['priority']}" if "priority" in c else "") for c in columns)
    assert shown == COLUMNS[name]
    assert all(is_there(schema_named(name), column["jsonPath"]) for column in columns)


def is_there(schema: dict[str, Any], path: str) -> bool:
    for part in path.strip(".").split("."):
        if path.startswith(".metadata"):
            return True
        inner = schema.get("properties", {}).get(part, schema.get("additionalProperties"))
        if inner is None:
            return False
        schema = inner
    return True


NAMES = {
    "Dataset": ("datasets", ["dataset"], ["fluid"]),
    "AlluxioRuntime": ("alluxioruntimes", ["alluxio"], ["fluid"]),
    "JindoRuntime": ("jindoruntimes", ["jindo"], ["fluid"]),
    "DataLoad": ("dataloads", ["load"], ["fluid"]),
    "DataMigrate": ("datamigrates", ["migrate"], ["fluid"]),
    "DataProcess": ("dataprocesses", None, None),
    "DataBackup": ("databackups", ["backup"], ["fluid"]),
}


@pytest.mark.parametrize("name", OURS)
def test_names_and_subresources_are_fluids(name: str) -> None:
    made = crd(KINDS[name])
    names = made["spec"]["names"]
    assert (names["plural"], names.get("shortNames"), names.get("categories")) == NAMES[name]
    assert made["metadata"]["name"] == f"{names['plural']}.data.fluid.io"
    (version,) = made["spec"]["versions"]
    assert version["name"] == "v1alpha1" and version["subresources"]["status"] == {}
    scale = version["subresources"].get("scale")
    assert (scale is not None) == name.endswith("Runtime")
    for path in (scale or {}).values():
        assert is_there(schema_named(name), path)


@pytest.mark.parametrize("file", sorted(HERE.glob("s*/*.yaml")), ids=lambda file: file.stem)
def test_samples_fit_the_schema(file: Path) -> None:
    for document in read_stream(file.read_text(encoding="utf-8"), file.name):
        kind = KINDS[document.content["kind"]]
        if not kind.is_core:
            assert list(value_faults(document.content, schema_named(kind.name))) == []


@pytest.mark.parametrize("name", OURS)
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
@given(data=st.data())
def test_what_the_model_accepts_fits_the_schema(name: str, data: Any) -> None:
    assert list(value_faults(data.draw(objects(name)), schema_named(name))) == []


def test_files_hold_what_the_models_say() -> None:
    folder = HERE.parent.parent.parent / "deploy" / "crds"
    assert {file.name for file in folder.glob("*.yaml")} == set(all_crds())
    for name, made in all_crds().items():
        (document,) = read_stream((folder / name).read_text(encoding="utf-8"), name)
        assert document.content == made


def test_bounds_that_the_api_server_would_round_are_left_to_the_format() -> None:
    """It keeps them as floating-point numbers: the largest int64 comes out as the smallest one."""

    def bounds(schema: object) -> list[int]:
        if isinstance(schema, dict):
            own = [schema[key] for key in ("minimum", "maximum") if isinstance(schema.get(key), int)]
            return own + [each for value in schema.values() for each in bounds(value)]
        return [each for value in schema for each in bounds(value)] if isinstance(schema, list) else []

    for content in all_crds().values():
        found = bounds(content)
        assert found
        assert all(abs(bound) <= 2**53 for bound in found)
