"""Objects as Fluid's documents show them are accepted, planned, and told which of their fields have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from planned import SEED, START, World, objects

from headrace.api.alluxio import AlluxioRuntime
from headrace.api.dataset import Dataset
from headrace.api.ignored import ignored_fields
from headrace.api.jindo import JindoRuntime
from headrace.api.kinds import Object, kind_of
from headrace.api.manifests import InvalidObjectsError, read_objects
from headrace.plan.condition_times import condition_of
from headrace.plan.job_specs import OperationContext
from headrace.plan.observed import Observed
from headrace.plan.operation_inputs import OperationInputs
from headrace.plan.operations import plan_operation


@dataclass(frozen=True)
class Sample:
    """What one document shows."""

    about: str
    ignored: tuple[str, ...]
    things: tuple[Object, ...]


def samples() -> Iterator[Sample]:
    text = (Path(__file__).parent / "documented.txt").read_text(encoding="utf-8")
    for entry in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, _, yaml = entry.partition("\n---\n")
        about, *ignored = head.splitlines()
        fields = tuple(line.removeprefix("ignored: ") for line in ignored)
        yield Sample(about, fields, tuple(read_objects(yaml, about)))


SAMPLES = list(samples())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.about)
def test_what_documents_show_is_accepted_and_fields_without_effect_are_named(sample: Sample) -> None:
    found = {field.path for thing in sample.things for field in ignored_fields(thing)}
    assert found == set(sample.ignored)
    told = " ".join(said_of(thing, sample.things) for thing in sample.things)
    assert all(path in told for path in sample.ignored), told


def said_of(thing: Object, beside: tuple[Object, ...]) -> str:
    """The condition that names fields without effect, as the plan writes it."""
    if kind_of(thing).is_core:
        return ""
    conditions: Any = ()
    if isinstance(thing, Dataset | AlluxioRuntime | JindoRuntime):
        namesake: Any = next((each for each in beside if each.name == thing.name and each is not thing), None)
        dataset, runtime = objects(SEED)[:2]
        if isinstance(thing, Dataset):
            world = World(thing, namesake or runtime)
        else:
            world = World(namesake if isinstance(namesake, Dataset) else dataset, thing)
        made = [world.reconcile() for _ in range(6)][-1]
        status: Any = made.dataset_status if isinstance(thing, Dataset) else made.runtime_status
        conditions = status.conditions
    else:
        scene = OperationInputs(thing, OperationContext({}, {}, Observed()))  # type: ignore[arg-type]
        conditions = plan_operation(scene, START).status.conditions
    said = condition_of(conditions, "FieldsIgnored")
    return said.message or "" if said else ""


def test_there_are_enough_of_them() -> None:
    assert len(SAMPLES) >= 24


@pytest.mark.parametrize(
    "kind",
    [
        *("ThinRuntime", "ThinRuntimeProfile", "JuiceFSRuntime", "EFCRuntime", "VineyardRuntime"),
        *("CacheRuntime", "CacheRuntimeClass"),
    ],
)
def test_runtimes_of_other_engines_are_refused_with_what_to_write_instead(kind: str) -> None:
    text = (
        f"apiVersion: data.fluid.io/v1alpha1\nkind: {kind}\nmetadata: {{name: d}}\nspec: {{profileName: x}}\n"
    )
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(text, "d.yaml")
    assert str(raised.value) == (
        f"d.yaml line 2: kind: {kind} is for an engine of another project, and Headrace has one of its own: "
        "write AlluxioRuntime or JindoRuntime"
    )
