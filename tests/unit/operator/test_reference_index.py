"""Who is looked at after a change."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from planned import SEED

from headrace.operator.mirror import Mirror
from headrace.operator.reference_index import affected_datasets

OWN = ("default", "imagenet")
REFERRER = {
    "kind": "Dataset",
    "metadata": {"name": "part", "namespace": "team"},
    "spec": {"mounts": [{"mountPoint": "dataset://default/imagenet/train"}]},
}
OTHER = {
    "kind": "Dataset",
    "metadata": {"name": "other", "namespace": "default"},
    "spec": {"mounts": [{"mountPoint": "pvc://shelf/data"}]},
}
LOAD = {
    "kind": "DataLoad",
    "metadata": {"name": "warm", "namespace": "default"},
    "spec": {"dataset": {"name": "imagenet", "namespace": "default"}},
}
NEXT = {
    "kind": "DataLoad",
    "metadata": {"name": "after", "namespace": "team"},
    "spec": {
        "dataset": {"name": "part"},
        "runAfter": {"kind": "DataLoad", "name": "warm", "namespace": "default"},
    },
}
OURS = {"app.kubernetes.io/managed-by": "headrace-operator", "headrace.io/dataset": "imagenet"}
HOME = {"headrace.io/namespace": "default"}


@pytest.fixture
def mirror() -> Mirror:
    mirror = Mirror(b"key")
    for content in [*yaml.safe_load_all(SEED), REFERRER, OTHER, LOAD, NEXT]:
        mirror.put(content["kind"], content)
    return mirror


def thing(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, **more.pop("metadata", {})}, **more}


def node(**more: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": more.pop("ready", "True"), "lastHeartbeatTime": more.pop("beat", "1")}
    return thing("node-1", "", metadata=more, status={"conditions": [ready]})


@pytest.mark.parametrize(
    ("kind", "content", "found"),
    [
        ("Dataset", {**thing("imagenet"), "spec": {}}, {OWN, ("team", "part")}),
        ("Dataset", REFERRER, {OWN, ("team", "part")}),
        ("JindoRuntime", thing("imagenet"), {OWN}),
        ("DataLoad", LOAD, {OWN, ("team", "part")}),
        ("DataLoad", NEXT, {("team", "part")}),
        ("Secret", thing("mysecret"), {OWN, ("team", "part")}),
        ("Secret", thing("mysecret", "team"), set()),
        ("Secret", thing("unrelated"), set()),
        ("PersistentVolumeClaim", thing("shelf"), {("default", "other")}),
        ("PersistentVolumeClaim", thing("imagenet"), {OWN, ("team", "part")}),
        ("Service", thing("x", metadata={"labels": OURS}), {OWN}),
        ("StatefulSet", thing("x", metadata={"labels": {"headrace.io/dataset": "imagenet"}}), set()),
        ("Pod", thing("user", spec={"claims": ["imagenet", "shelf"]}), {OWN}),
        ("Pod", thing("s", "sys", metadata={"labels": {**OURS, **HOME}}, spec={"claims": []}), {OWN}),
    ],
)
def test_a_change_concerns_those_that_it_matters_to(
    mirror: Mirror, kind: str, content: dict[str, Any], found: set[tuple[str, str]]
) -> None:
    assert affected_datasets(mirror, kind, None, content) == found
    gone = affected_datasets(mirror, kind, content, None)
    # Whoever waited for the nodes of a dataset that is gone may have them now.
    assert found <= gone if kind == "Dataset" else gone == found


def test_a_heartbeat_of_a_node_concerns_nobody(mirror: Mirror) -> None:
    assert affected_datasets(mirror, "Node", node(beat="1"), node(beat="2")) == set()


@pytest.mark.parametrize("now", [node(ready="Unknown"), node(labels={"gpu": "1"}), None])
def test_what_matters_of_a_node_concerns_all(mirror: Mirror, now: dict[str, Any] | None) -> None:
    assert affected_datasets(mirror, "Node", node(), now) == {OWN, ("team", "part"), ("default", "other")}


@pytest.mark.parametrize("kind", ["Dataset", "JindoRuntime"])
def test_a_status_concerns_others_and_not_the_one_who_said_it(mirror: Mirror, kind: str) -> None:
    before = {**thing("imagenet", metadata={"resourceVersion": "1"}), "spec": {"a": 1}, "status": {"x": 1}}
    after = {**before, "metadata": {**before["metadata"], "resourceVersion": "2"}, "status": {"x": 2}}
    assert affected_datasets(mirror, kind, before, after) == (
        {("team", "part")} if kind == "Dataset" else set()
    )
    noted = {**after, "metadata": {**after["metadata"], "annotations": {"note": "x"}}}
    assert OWN in affected_datasets(mirror, kind, before, noted)


def test_the_phase_of_an_operation_concerns_who_waits_for_it(mirror: Mirror) -> None:
    after = {**LOAD, "status": {"phase": "Complete"}}
    assert affected_datasets(mirror, "DataLoad", LOAD, after) == {("team", "part")}
