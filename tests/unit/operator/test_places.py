"""Which nodes and folders are swept when a dataset goes: what the operator noted itself, whatever tenants write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from operator_context import OperatorWorld

SETTINGS_MAP = ("ConfigMap", "default", "imagenet-headrace-config")
ROOT = "/var/lib/docker/jindo"


def change(world: OperatorWorld, **metadata: Any) -> None:
    """A tenant edits the ConfigMap in the dataset's namespace."""
    known = world.cluster.objects[SETTINGS_MAP]
    world.cluster._store(SETTINGS_MAP, {**known, "metadata": {**known["metadata"], **metadata}})


def delete_dataset(world: OperatorWorld) -> list[dict[str, Any]]:
    """The dataset is deleted; the sweepers that were made until nothing moves any more."""
    for kind in ("Dataset", "JindoRuntime"):
        known = world.cluster.objects[kind, "default", "imagenet"]
        metadata = {**known["metadata"], "deletionTimestamp": "2026-01-31T10:00:00Z"}
        world.cluster._store((kind, "default", "imagenet"), {**known, "metadata": metadata})
    made: dict[str, dict[str, Any]] = {}

    def look() -> None:
        world.reconcile()
        made.update({pod["metadata"]["name"]: pod for pod in world.cluster.of("Pod") if is_sweeper(pod)})

    world.settle(reconcile=look)
    return list(made.values())


def is_sweeper(pod: dict[str, Any]) -> bool:
    return pod["metadata"]["namespace"] == "headrace-system"


def places(sweepers: list[dict[str, Any]]) -> dict[str, set[str]]:
    return {
        pod["spec"]["nodeName"]: {each["hostPath"]["path"] for each in pod["spec"]["volumes"]}
        for pod in sweepers
    }


EDITS: list[dict[str, Any]] = [
    {"annotations": {"headrace.io/places": json.dumps({"node-1": ["/etc", "/home"], "master-1": ["/"]})}},
    {"annotations": {}, "finalizers": []},
    {"annotations": {"headrace.io/places": "[1, {"}},
]


@pytest.mark.parametrize("metadata", EDITS)
def test_no_word_of_a_tenant_leads_what_deletes_on_nodes(
    world: OperatorWorld, metadata: dict[str, Any]
) -> None:
    world.declare()
    world.settle()
    change(world, **metadata)
    swept = places(delete_dataset(world))
    assert set(swept) == {"node-1", "node-2", "node-3", "node-4"}
    assert set().union(*swept.values()) == {ROOT, "/var/lib/headrace"}
    assert not world.cluster.of("ConfigMap")


def test_places_that_went_with_the_operator_s_namespace_are_noted_again(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    (name,) = [
        key[2] for key in world.cluster.objects if key[0] == "ConfigMap" and key[1] == "headrace-system"
    ]
    world.cluster.remove(("ConfigMap", "headrace-system", name))
    world.settle()
    assert set(places(delete_dataset(world))) == {"node-1", "node-2", "node-3", "node-4"}


def test_what_an_earlier_release_noted_counts_as_far_as_it_is_allowed(world: OperatorWorld) -> None:
    """It stood where tenants write."""
    noted = {"node-1": [ROOT, "/etc"], "node-2": "/etc", "gone": [ROOT]}
    metadata = {
        "name": "imagenet-headrace-config",
        "namespace": "default",
        "labels": {"app.kubernetes.io/managed-by": "headrace-operator", "headrace.io/dataset": "imagenet"},
        "annotations": {"headrace.io/places": json.dumps(noted)},
        "finalizers": ["headrace.io/sweep"],
    }
    world.cluster.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    made: dict[str, dict[str, Any]] = {}

    def look() -> None:
        world.reconcile()
        made.update({pod["metadata"]["name"]: pod for pod in world.cluster.of("Pod") if is_sweeper(pod)})

    world.settle(reconcile=look)
    assert places(list(made.values())) == {
        "node-1": {ROOT, "/var/lib/headrace"},
        "node-2": {"/var/lib/headrace"},
    }
    assert not world.cluster.of("ConfigMap")
