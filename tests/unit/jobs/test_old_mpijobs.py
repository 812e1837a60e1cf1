"""MPIJobs of v1alpha1 against those who serve it: Arena's operator, and the last of Kubeflow's own that did."""

from __future__ import annotations

import re

import pytest
import yaml
from crd_schemas import value_faults
from memory_jobs import mpi_spec
from old_mpijobs import EVERYTHING, arena_crd, operator_crd, operator_types

from headrace.jobs.objects import job_object
from headrace.jobs.spec import JobSpec

JOBS = {"plain": mpi_spec(), "everything": mpi_spec(**EVERYTHING)}


@pytest.fixture(params=JOBS)
def spec(request: pytest.FixtureRequest) -> JobSpec:
    return JOBS[request.param]


def test_arenas_schema_knows_every_field_that_is_written(spec: JobSpec) -> None:
    # Four hundred kilobytes: a reader in Python takes seconds.
    crd = yaml.load(arena_crd().read_text(), Loader=yaml.CSafeLoader)
    (version,) = crd["spec"]["versions"]
    job = job_object(spec, version="v1alpha1")
    assert job["apiVersion"] == f"kubeflow.org/{version['name']}"
    schema = version["schema"]["openAPIV3Schema"]
    assert list(value_faults(job, schema)) == []
    # It is read as closely as an API server does that prunes what it does not know.
    assert list(value_faults({**job, "spec": {**job["spec"], "slotsPerWorker": 8}}, schema)) == [
        ".spec.slotsPerWorker: unknown"
    ]


def test_the_last_operator_of_kubeflow_that_served_it_gets_one_way_to_say_how_many(spec: JobSpec) -> None:
    crd = yaml.safe_load(operator_crd().read_text())["spec"]
    assert crd["version"] == "v1alpha1"
    ways = crd["validation"]["openAPIV3Schema"]["properties"]["spec"]["oneOf"]
    written = job_object(spec, version="v1alpha1")["spec"]
    (way,) = (each for each in ways if set(each["required"]) <= set(written))
    assert way["required"] == ["replicas"]
    known = {name: written[name] for name in way["properties"] if name in written}
    assert list(value_faults(known, {"type": "object", **way})) == []


def test_what_kubeflows_last_operator_does_not_read_is_known() -> None:
    """It leaves such fields alone: its workers always go at the end, and its launcher always sees the data."""
    (fields,) = re.findall(r"^type MPIJobSpec struct \{(.*?)^\}", operator_types().read_text(), re.M | re.S)
    read = set(re.findall(r'json:"(\w+)', fields))
    written = set(job_object(mpi_spec(), version="v1alpha1")["spec"])
    assert written - read == {"cleanPodPolicy", "launcherResources", "mountsOnLauncher"}
    assert {"replicas", "backoffLimit", "template"} <= read
