"""What a tenant writes into a Runtime, and what of it reaches pods: as the administrator's policy has it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from operator_context import OperatorWorld
from planned import SEED

DATASET = SEED.partition("---")[0]
EVIL = {"PYTHONPATH": "/mnt/code", "LD_PRELOAD": "/mnt/code/a.so", "HEADRACE_WORKER_MASTER": "http://evil"}
PROXY = {"HTTPS_PROXY": "http://proxy.example.com:3128"}
PLACES = [
    {"name": "node", "mountPath": "/mnt/node"},
    {"name": "code", "mountPath": "/usr/lib/python3/dist-packages", "readOnly": True},
    {"name": "conf", "mountPath": "/mnt/conf", "mountPropagation": "Bidirectional"},
    {"name": "token", "mountPath": "/mnt/token"},
    {"name": "ca", "mountPath": "/mnt/ca", "readOnly": True},
]
VOLUMES = [
    {"name": "node", "hostPath": {"path": "/"}},
    {"name": "code", "configMap": {"name": "code"}},
    {"name": "conf", "configMap": {"name": "conf"}},
    {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    {"name": "ca", "configMap": {"name": "ca"}},
]
NOTES = {
    "sidecar.istio.io/userVolume": '[{"name":"root","hostPath":{"path":"/"}}]',
    "container.apparmor.security.beta.kubernetes.io/worker": "unconfined",
    "headrace.io/dataset": "other",
    "note": "kept",
}
RESOURCES = {"limits": {"nvidia.com/gpu": "8", "memory": "9Ei", "cpu": "2"}, "claims": [{"name": "device"}]}
ROLES = {"master": "StatefulSet", "worker": "StatefulSet", "fuse": "DaemonSet"}


def tenant_s_runtime() -> dict[str, Any]:
    part = {
        "env": EVIL | PROXY,
        "volumeMounts": PLACES,
        "podMetadata": {"annotations": NOTES, "labels": {"sidecar.istio.io/inject": "true", "team": "a"}},
        "resources": RESOURCES,
    }
    levels = [{"mediumtype": "SSD", "path": "/var/lib/docker/alluxio", "quota": "50Gi"}]
    spec = {"replicas": 1, "tieredstore": {"levels": levels}, "volumes": VOLUMES}
    return {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "AlluxioRuntime",
        "metadata": {"name": "imagenet", "namespace": "default", "generation": 1},
        "spec": spec | dict.fromkeys(ROLES, part),
    }


@pytest.fixture
def served(world: OperatorWorld) -> OperatorWorld:
    world.declare(f"{DATASET}---\n{yaml.safe_dump(tenant_s_runtime())}")
    world.settle()
    return world


def template(world: OperatorWorld, role: str) -> dict[str, Any]:
    workload = world.get(ROLES[role], f"imagenet-{role}")
    assert workload is not None
    return dict(workload["spec"]["template"])


@pytest.mark.parametrize("role", list(ROLES))
def test_a_runtime_puts_no_code_no_node_and_no_device_into_a_pod(served: OperatorWorld, role: str) -> None:
    made = template(served, role)
    (container,) = made["spec"]["containers"]
    assert not EVIL.keys() & {each["name"] for each in container["env"]}
    added = {each["mountPath"] for each in container["volumeMounts"]} & {each["mountPath"] for each in PLACES}
    assert added <= {"/mnt/ca"}
    assert not {"/"} & {each["hostPath"]["path"] for each in made["spec"]["volumes"] if "hostPath" in each}
    assert "serviceAccountToken" not in json.dumps(made)
    metadata = made["metadata"]
    assert metadata["annotations"].get("headrace.io/dataset") is None
    assert not (NOTES.keys() - {"note"}) & metadata["annotations"].keys()
    assert "sidecar.istio.io/inject" not in metadata["labels"]
    assert container["resources"] == {"limits": {"cpu": "2"}}


def test_a_privileged_pod_gets_neither_variables_nor_volumes_of_a_tenant(served: OperatorWorld) -> None:
    (container,) = template(served, "fuse")["spec"]["containers"]
    assert container["securityContext"] == {"privileged": True}
    ours = {"NODE_NAME", "HEADRACE_MOUNT_NODE", "HEADRACE_TRUSTED_FOLDERS"}
    assert {each["name"] for each in container["env"]} == ours
    assert not {each["mountPath"] for each in PLACES} & {
        each["mountPath"] for each in container["volumeMounts"]
    }


@pytest.mark.parametrize("role", ["master", "worker"])
def test_what_does_no_harm_reaches_master_and_workers(served: OperatorWorld, role: str) -> None:
    made = template(served, role)
    (container,) = made["spec"]["containers"]
    told = {each["name"]: each.get("value") for each in container["env"]}
    assert told.items() >= PROXY.items()
    assert PLACES[-1] in container["volumeMounts"]
    assert VOLUMES[-1] in made["spec"]["volumes"]
    assert made["metadata"]["annotations"]["note"] == "kept"
    assert made["metadata"]["labels"]["team"] == "a"


def test_what_is_refused_is_named_with_what_to_do(served: OperatorWorld) -> None:
    runtime = served.get("AlluxioRuntime", "imagenet")
    assert runtime is not None
    (refused,) = [each for each in runtime["status"]["conditions"] if each["type"] == "FieldsRefused"]
    assert refused["status"] == "True"
    for words in (
        "spec.fuse.env.PYTHONPATH",
        "spec.worker.env.LD_PRELOAD",
        "spec.worker.volumeMounts[0]",
        "spec.worker.resources.limits.nvidia.com/gpu",
        "spec.master.podMetadata.annotations.headrace.io/dataset",
        "policy.environment of the chart's values",
    ):
        assert words in refused["message"], words
    events = [each for each in served.cluster.of("Event") if each["reason"] == "FieldsRefused"]
    assert [each["type"] for each in events] == ["Warning"]
    assert "spec.master.env.PYTHONPATH" in events[0]["message"]


def test_a_runtime_of_today_s_users_is_told_nothing(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    runtime = world.get("JindoRuntime", "imagenet")
    assert runtime is not None
    assert "FieldsRefused" not in {each["type"] for each in runtime["status"]["conditions"]}
