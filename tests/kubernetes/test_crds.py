"""The API server takes the kinds of deploy/crds, refuses what their rules say, and prints their columns in order."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from arena_on_kubernetes import Arena
from old_mpijobs import arena_crd

from headrace.testing.kubernetes.kubectl import Kubectl, KubectlError

from .conftest import CRDS

VERSION = "data.fluid.io/v1alpha1"
DATASET = {"mounts": [{"mountPoint": "s3://bucket/a", "name": "a"}]}
LEVEL = {"mediumtype": "SSD", "path": "/cache", "quota": "1Gi"}
TWICE = {"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
LABELS = {"labels": {"a": "b"}, "podMetadata": {"labels": {"a": "c"}}}
IMAGE = {"image": "x", "imageTag": "1", "command": ["true"], "source": "true"}
LOAD = {"dataset": {"name": "a", "namespace": "default"}}
SIDES = {
    "from": {"dataset": {"name": "a", "namespace": "default"}},
    "to": {"externalStorage": {"uri": "s3://b/"}},
}
EXTERNAL = {"externalStorage": {"uri": "s3://b/"}}
PROCESS = {**LOAD, "processor": {"script": IMAGE}}
PROCESS["dataset"] = {**LOAD["dataset"], "mountPath": "/data"}

NAME = "metadata.name must be up to 63 lower-case letters, digits and '-', starting with a letter"
ONE_VALUE = "only one of value and valueFrom may be set"
NO_LABELS = "labels cannot stand beside podMetadata.labels"
ONE_SIDE = "exactly one of dataset and externalStorage is needed"
CRON = "policy Cron needs a schedule"
FIXED_POLICY = "policy cannot be changed: make a new object"
FIXED_DATASET = "dataset cannot be changed: make a new object"
VOLUME = "volumeSource needs volumeType emptyDir"
MARKS = "high must be above low"
QUOTAS = "quotaList needs one quota for each path"

KINDS = {
    "Dataset": DATASET,
    "AlluxioRuntime": {"replicas": 1, "tieredstore": {"levels": [LEVEL]}},
    "JindoRuntime": {"replicas": 1, "tieredstore": {"levels": [LEVEL]}},
    "DataLoad": LOAD,
    "DataBackup": {"dataset": "a", "backupPath": "local:///backups"},
    "DataMigrate": SIDES,
    "DataProcess": PROCESS,
}


def _levels(**fields):
    return {"tieredstore": {"levels": [{**LEVEL, **fields}]}}


# kind, what is wrong, where it is refused, and what is said
REFUSED = [
    ("Dataset", {"mounts": [{"mountPoint": f"s3://b/{x}", "name": x, "path": "/same"} for x in "ab"]}, "spec",
     "each mount needs a path of its own"),
    *((kind, _levels(volumeType="hostPath", volumeSource={"emptyDir": {}}), "spec.tieredstore.levels[0]", VOLUME)
      for kind in ("AlluxioRuntime", "JindoRuntime")),
    *((kind, _levels(high="0.5", low="0.7"), "spec.tieredstore.levels[0]", MARKS)
      for kind in ("AlluxioRuntime", "JindoRuntime")),
    *((kind, _levels(path="/a,/b", quotaList="1Gi"), "spec.tieredstore.levels[0]", QUOTAS)
      for kind in ("AlluxioRuntime", "JindoRuntime")),
    ("AlluxioRuntime", {"initUsers": {"env": [TWICE]}}, "spec.initUsers.env[0]", ONE_VALUE),
    *(("JindoRuntime", {part: LABELS}, f"spec.{part}", NO_LABELS) for part in ("master", "worker", "fuse")),
    ("JindoRuntime", LABELS, "spec", NO_LABELS),
    ("JindoRuntime", {"master": {"replicas": 2}}, "spec", "master.replicas must be 1 or 3"),
    ("DataLoad", {**LOAD, "policy": "Cron"}, "spec", CRON),
    ("DataMigrate", {**SIDES, "policy": "Cron", "schedule": ""}, "spec", CRON),
    ("DataProcess", {**PROCESS, "policy": "Cron"}, "spec", CRON),
    ("DataMigrate", {**SIDES, "from": {**SIDES["from"], **EXTERNAL}}, "spec.from", ONE_SIDE),
    ("DataMigrate", {**SIDES, "to": {**SIDES["from"], **EXTERNAL}}, "spec.to", ONE_SIDE),
    ("DataMigrate", {**SIDES, "from": EXTERNAL}, "spec", "one side at least must be a dataset"),
    ("DataProcess", {**PROCESS, "processor": {}}, "spec.processor", "exactly one of job and script is needed"),
    ("DataProcess", {**PROCESS, "processor": {"script": {**IMAGE, "env": [TWICE]}}},
     "spec.processor.script.env[0]", ONE_VALUE),
]  # fmt: skip

OTHER = {**LOAD["dataset"], "name": "b"}
CHANGED = [
    ("DataLoad", {"policy": "OnEvent"}, FIXED_POLICY),
    ("DataMigrate", {"policy": "OnEvent"}, FIXED_POLICY),
    ("DataProcess", {"policy": "OnEvent"}, FIXED_POLICY),
    ("DataLoad", {"dataset": OTHER}, FIXED_DATASET),
    ("DataProcess", {"dataset": {**OTHER, "mountPath": "/data"}}, FIXED_DATASET),
    ("DataBackup", {"dataset": "b"}, FIXED_DATASET),
]
BAD_NAMES = [
    (kind, name) for kind in ("Dataset", "AlluxioRuntime", "JindoRuntime") for name in ("1a", "a.b", "a" * 64)
]


def _object(kind, spec, name="a"):
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": copy.deepcopy(spec)}


def _refusal(kubernetes, namespace, made):
    with pytest.raises(KubectlError) as refused:
        kubernetes("create", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(made))
    return str(refused.value)


@pytest.fixture(scope="module")
def place(crds):
    """One namespace for all that is refused anyway."""
    crds("create", "namespace", "test-crds")
    yield "test-crds"
    crds("delete", "namespace", "test-crds", "--wait=false")


@pytest.mark.short
@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_definition_is_accepted_without_a_complaint(crds, path):
    name = yaml.safe_load(path.read_text())["metadata"]["name"]
    conditions = crds.get("crd", name)["status"]["conditions"]
    assert {each["type"]: each["status"] for each in conditions} == {
        "NamesAccepted": "True",
        "Established": "True",
    }


@pytest.mark.short
@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_object_of_each_kind_is_taken(crds, place, kind):
    crds(
        "create", "-n", place, "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(_object(kind, KINDS[kind]))
    )


@pytest.mark.parametrize(("kind", "spec", "where", "message"), REFUSED)
def test_a_rule_refuses_what_it_should_and_says_where(crds, place, kind, spec, where, message):
    said = _refusal(crds, place, _object(kind, spec))
    assert f"{where}: Invalid value" in said
    assert message in said
    assert said.count("Invalid value") == 1, "only that rule"


@pytest.mark.parametrize(("kind", "change", "message"), CHANGED)
def test_what_cannot_be_changed_stays_as_it_is(crds, namespace, kind, change, message):
    crds("create", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(_object(kind, KINDS[kind])))
    with pytest.raises(KubectlError) as refused:
        crds("patch", kind, "a", "-n", namespace, "--type=merge", "-p", json.dumps({"spec": change}))
    assert message in str(refused.value)


@pytest.mark.parametrize(("kind", "name"), BAD_NAMES)
def test_a_name_that_no_service_could_have_is_refused(crds, place, kind, name):
    assert NAME in _refusal(crds, place, _object(kind, KINDS[kind], name))


def test_every_rule_of_the_definitions_has_been_seen_to_refuse():
    seen = {(kind, message) for kind, _, _, message in REFUSED}
    seen |= {(kind, message) for kind, _, message in CHANGED} | {(kind, NAME) for kind, _ in BAD_NAMES}
    definitions = [yaml.safe_load(path.read_text())["spec"] for path in CRDS.glob("*.yaml")]
    rules = {
        (each["names"]["kind"], message) for each in definitions for message in _messages(each["versions"])
    }
    assert seen == rules


def _messages(part):
    if isinstance(part, dict):
        yield from (rule["message"] for rule in part.get("x-kubernetes-validations", ()))
        for below in part.values():
            yield from _messages(below)
    elif isinstance(part, list):
        for below in part:
            yield from _messages(below)


STATUS = {
    "Dataset": {
        "ufsTotal": "143.67GiB",
        "phase": "Bound",
        "cacheStates": {"cached": "0.00B", "cacheCapacity": "648.00GiB", "cachedPercentage": "0.0%"},
    },
    "JindoRuntime": {"masterPhase": "Ready", "workerPhase": "Ready", "fusePhase": "Ready"},
}
PRINTED = {
    "Dataset": (
        "NAME   UFS TOTAL SIZE   CACHED   CACHE CAPACITY   CACHED PERCENTAGE   PHASE   AGE",
        "a      143.67GiB        0.00B    648.00GiB        0.0%                Bound",
    ),
    "JindoRuntime": (
        "NAME   MASTER PHASE   WORKER PHASE   FUSE PHASE   AGE",
        "a      Ready          Ready          Ready",
    ),
}


@pytest.mark.parametrize("kind", PRINTED)
def test_kubectl_prints_the_columns_of_the_seeds_in_their_order(crds, namespace, kind):
    crds("create", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(_object(kind, KINDS[kind])))
    status = json.dumps({"status": STATUS[kind]})
    crds("patch", kind, "a", "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    head, line = crds("get", kind.lower(), "-n", namespace).splitlines()
    assert head.rstrip() == PRINTED[kind][0]
    assert line.startswith(PRINTED[kind][1])


@pytest.mark.parametrize("kind", ["AlluxioRuntime", "JindoRuntime"])
def test_kubectl_scale_changes_a_runtime(crds, namespace, kind):
    crds("create", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(_object(kind, KINDS[kind])))
    crds("scale", kind, "a", "-n", namespace, "--replicas=3")
    assert crds.get(kind, "a", "-n", namespace)["spec"]["replicas"] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_kubectl_explains_every_kind(crds, kind):
    assert "FIELDS:" in crds("explain", f"{kind}.spec", f"--api-version={VERSION}")


@pytest.fixture
def old_mpijobs(kubernetes: Kubectl) -> Iterator[None]:
    """The cluster serves MPIJobs as Arena's own operator has them, and no others."""
    file = f"--filename={arena_crd()}"
    kubernetes("apply", "--server-side", file)
    kubernetes.wait_until_established(file)
    yield
    kubernetes("delete", file, timeout_s=330)


def test_the_api_server_takes_every_word_of_an_mpijob_of_v1alpha1(
    kubernetes: Kubectl, old_mpijobs: None, namespace: str, tmp_path: Path
) -> None:
    """Strictly: no field that the kind does not know."""
    arena = Arena(kubernetes, namespace)
    words = ("--gpus=1", "--gang", "--rdma", "--hostNetwork", "--priority=system-node-critical")
    kubernetes.wait(lambda: "mpijobs" in kubernetes("api-resources", "--api-group=kubeflow.org"), "the kind")
    assert "seen-mpi created" in arena.created_strictly("mpi", tmp_path, *words, "--mounts-on-launcher")
    shown = arena.run(
        *("submit", "mpi", "--name=a", "--image=i", "--dry-run", "-n", namespace, "true")
    ).stdout
    assert shown.startswith("apiVersion: kubeflow.org/v1alpha1\nkind: MPIJob\n")
