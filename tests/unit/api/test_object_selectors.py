"""Selectors mean what they mean to kubectl."""

from __future__ import annotations

import pytest

from headrace.api.object_selectors import parse_selector
from headrace.errors import ConfigError

OBJECTS = {
    "gold": {"team": "vision", "tier": "gold"},
    "silver": {"team": "speech", "tier": "silver", "data.fluid.io/draft": ""},
    "bare": {},
}
DOCUMENTS = [
    {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Bound" if labels else "NotBound"}}
    for name, labels in OBJECTS.items()
]


def meant(labels: str = "", fields: str = "") -> list[str]:
    selector = parse_selector(labels, fields)
    return [each["metadata"]["name"] for each in DOCUMENTS if selector.fits(each)]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ("", ["gold", "silver", "bare"]),
        ("team=vision", ["gold"]),
        ("team==vision", ["gold"]),
        (" team = vision ", ["gold"]),
        ("team!=vision", ["silver", "bare"]),
        ("team", ["gold", "silver"]),
        ("!team", ["bare"]),
        ("! team", ["bare"]),
        ("team in (vision, speech)", ["gold", "silver"]),
        ("team in(vision)", ["gold"]),
        ("team notin (vision)", ["silver", "bare"]),
        ("team,tier!=gold", ["silver"]),
        ("team in (vision,speech),tier notin (silver)", ["gold"]),
        ("data.fluid.io/draft", ["silver"]),
        ("data.fluid.io/draft=", ["silver"]),
        ("!data.fluid.io/draft,team", ["gold"]),
        ("tier=", []),
        ("in", []),
        ("in in (in),notin notin (notin)", []),
    ],
)
def test_labels_select(labels: str, names: list[str]) -> None:
    assert meant(labels) == names


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ("metadata.name=gold", ["gold"]),
        ("metadata.name!=gold,status.phase=Bound", ["silver"]),
        ("status.phase==NotBound", ["bare"]),
        ("spec.nothing=", ["gold", "silver", "bare"]),
        (".metadata.name=gold", ["gold"]),
    ],
)
def test_fields_select(fields: str, names: list[str]) -> None:
    assert meant(fields=fields) == names


@pytest.mark.parametrize(
    "labels",
    ["=x", "a=b c", "team in vision", "team in (", "a b", "a=b;c", "team=vision,,tier", "a~b", "-x=y", "a>1"],
)
def test_what_is_no_selector_is_refused_with_the_forms(labels: str) -> None:
    with pytest.raises(ConfigError, match="is no condition on a label") as caught:
        parse_selector(labels)
    assert "notin" in (caught.value.hint or "")


@pytest.mark.parametrize("fields", ["name=x", "metadata.name", "nothing.at.all=x", "=x"])
def test_what_is_no_field_is_refused(fields: str) -> None:
    with pytest.raises(ConfigError, match="is no condition on a field"):
        parse_selector("", fields)
