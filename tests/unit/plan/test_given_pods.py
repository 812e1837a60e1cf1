"""Pods that a tenant describes and the operator creates: no more than the administrator's policy allows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml
from planned import World, objects

from headrace.api.operations import OperationPhase
from headrace.plan.job_specs import OperationContext
from headrace.plan.operation_inputs import OperationInputs
from headrace.plan.operations import OperationPlan, plan_operation
from headrace.plan.policy import Policy

PLAIN = {"name": "a", "image": "busybox"}


@pytest.fixture(scope="module")
def world() -> World:
    made = World.of()
    made.settle()
    return made


def planned(world: World, kind: str, spec: dict[str, Any], policy: Policy | None) -> OperationPlan:
    metadata = {"name": "job", "namespace": "default", "creationTimestamp": "2026-01-31T09:30:00Z"}
    head = {"apiVersion": "data.fluid.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    seen = dataclasses.replace(world.seen, policy=policy)
    own = {"default/imagenet": world.dataset}, {"default/imagenet": world.runtime}
    (operation,) = objects(yaml.safe_dump(head))
    return plan_operation(OperationInputs(operation, OperationContext(*own, seen)), world.now)  # type: ignore[arg-type]


def processed(world: World, policy: Policy | None = Policy(), **processor: Any) -> OperationPlan:  # noqa: B008
    dataset = {"name": "imagenet", "mountPath": "/data"}
    return planned(world, "DataProcess", {"dataset": dataset, "processor": processor}, policy)


def said(made: OperationPlan) -> str:
    assert made.start is None
    assert made.status.phase is OperationPhase.FAILED
    (condition,) = (each for each in made.status.conditions if each.type == "Failed")
    assert condition.reason == "PodNotAllowed"
    assert "policy" in str(condition.message)
    return str(condition.message)


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"hostNetwork": True}, "hostNetwork"),
        ({"serviceAccountName": {"a": []}, "volumes": {}, "securityContext": [1]}, "serviceAccountName"),
        ({"containers": [PLAIN | {"securityContext": {"capabilities": {"add": "ALL"}}}]}, "ALL"),
        (
            {"containers": [PLAIN | {"securityContext": {"procMount": {}, "privileged": "true"}}]},
            "privileged",
        ),
        ({"hostPID": True}, "hostPID"),
        ({"nodeName": "master-1"}, "nodeName"),
        ({"tolerations": [{"operator": "Exists"}]}, "all taints"),
        ({"tolerations": [{"key": "team-b", "operator": "Exists"}]}, "taint team-b"),
        ({"priorityClassName": "system-node-critical"}, "system-node-critical"),
        ({"serviceAccountName": "admin"}, "admin"),
        ({"serviceAccount": "admin"}, "admin"),
        ({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, "hostPath"),
        ({"containers": [PLAIN | {"securityContext": {"privileged": True}}]}, "privileged"),
        ({"initContainers": [PLAIN | {"securityContext": {"privileged": True}}]}, "privileged"),
        (
            {"containers": [PLAIN | {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
            "SYS_ADMIN",
        ),
        ({"containers": [PLAIN | {"securityContext": {"procMount": "Unmasked"}}]}, "procMount"),
        ({"containers": [PLAIN | {"ports": [{"containerPort": 80, "hostPort": 80}]}]}, "hostPort"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "Unconfined"),
        ({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, "seLinuxOptions"),
        ({"securityContext": {"sysctls": [{"name": "kernel.core_pattern", "value": "|/a"}]}}, "core_pattern"),
    ],
)
def test_a_pod_with_rights_on_its_node_or_of_another_is_refused(
    world: World, pod: dict[str, Any], words: str
) -> None:
    assert words in said(processed(world, job={"podSpec": {"containers": [PLAIN], **pod}}))


def test_a_script_is_held_to_the_same(world: World) -> None:
    script = {"source": "ls", "volumes": [{"name": "root", "hostPath": {"path": "/"}}]}
    assert "hostPath" in said(processed(world, script=script))
    assert "admin" in said(processed(world, script={"source": "ls"}, serviceAccountName="admin"))
    notes = {"annotations": {"container.apparmor.security.beta.kubernetes.io/script": "unconfined"}}
    assert "apparmor" in said(processed(world, script={"source": "ls"}, podMetadata=notes))


def test_what_needs_no_right_runs_and_what_the_administrator_allows(world: World) -> None:
    volumes = [{"name": "out", "emptyDir": {}}, {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]
    security = {"runAsUser": 1000, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}
    taints = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    pod = {"containers": [PLAIN | {"securityContext": security}], "volumes": volumes, "tolerations": taints}
    assert processed(world, job={"podSpec": pod}, podMetadata={"labels": {"team": "a"}}).start is not None
    wide = Policy(process_pods="Any", service_accounts=("admin",), pod_metadata=("example.com",))
    noted = {"annotations": {"example.com/a": "b"}}
    other = {"containers": [PLAIN], "hostNetwork": True, "serviceAccountName": "admin"}
    assert processed(world, wide, job={"podSpec": other}, podMetadata=noted).start is not None
    assert processed(world, None, job={"podSpec": other}).start is not None


def test_a_copy_takes_no_device_and_no_profile(world: World) -> None:
    place = {"dataset": {"name": "imagenet", "namespace": "default"}}
    spec = {"from": place, "to": {"externalStorage": {"uri": "pvc://backups/a"}}}
    gpu = spec | {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    assert "nvidia.com/gpu" in said(planned(world, "DataMigrate", gpu, Policy()))
    taints = spec | {"tolerations": [{"key": "team-b", "operator": "Exists"}]}
    assert "taint team-b" in said(planned(world, "DataMigrate", taints, Policy()))
    noted = spec | {"podMetadata": {"labels": {"sidecar.istio.io/inject": "true"}}}
    assert "sidecar.istio.io/inject" in said(planned(world, "DataMigrate", noted, Policy()))
