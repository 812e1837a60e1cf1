"""What keeps an operation's pod from going on is said, with what to do; and what lasts too long is given up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from operator_context import OperatorWorld
from planned import SEED

from headrace.operator.operations.pod_trouble import trouble_of
from headrace.plan.reasons import Reason

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
LONG_AGO, JUST_NOW = NOW - timedelta(minutes=5), NOW - timedelta(seconds=5)


def at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


JOB = {"metadata": {"name": "warm-process-1", "creationTimestamp": at(LONG_AGO)}}
FRESH = {"metadata": {"name": "warm-process-1", "creationTimestamp": at(JUST_NOW)}}


def pod(
    phase: str,
    *statuses: dict[str, Any],
    node: str = "node-1",
    scheduled: datetime | None = None,
    **more: Any,
) -> dict[str, Any]:
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(scheduled or JUST_NOW)}
    conditions = more.pop("conditions", [bound])
    metadata = {"name": "warm-x", "creationTimestamp": at(LONG_AGO)}
    status = {"phase": phase, "conditions": conditions, "containerStatuses": list(statuses), **more}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": status}


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"name": "copy", "image": "there/is:none", "state": state, **more}


ENDED = {
    "exitCode": 3,
    "reason": "Error",
    "message": "serving\nerror: no bucket, secret=topsecret\nhint: make it",
}
AGAIN = waiting("CrashLoopBackOff", "back-off 40s", lastState={"terminated": ENDED})


NOWHERE = pod(
    "Pending",
    node="",
    conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
    ],
)
KILLED = pod("Failed", {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}})


@pytest.mark.parametrize(
    ("job", "pods", "reason", "words"),
    [
        (JOB, [NOWHERE], Reason.POD_UNSCHEDULABLE, "pod warm-x finds no node (0/3 nodes fit)"),
        (
            JOB,
            [pod("Pending", waiting("ImagePullBackOff", "not found"))],
            Reason.IMAGE_NOT_PULLED,
            "image there/is:none cannot be had for pod warm-x on node-1 (ImagePullBackOff: not found)",
        ),
        (
            JOB,
            [pod("Pending", waiting("CreateContainerConfigError", "no secret"))],
            Reason.POD_NOT_STARTING,
            "container copy of pod warm-x on node-1 does not start",
        ),
        (JOB, [pod("Pending", waiting("ContainerCreating"))], None, ""),
        (
            JOB,
            [pod("Pending", waiting("ContainerCreating"), scheduled=LONG_AGO)],
            Reason.POD_NOT_STARTING,
            "pod warm-x on node-1 has its node, and does not begin",
        ),
        (JOB, [], Reason.POD_NOT_STARTING, "Job warm-process-1 has no pod since it was made"),
        (FRESH, [], None, ""),
        (JOB, [pod("Running")], None, ""),
        (
            JOB,
            [KILLED, pod("Running")],
            Reason.POD_KILLED,
            "1 of its pods ended, the last with exit code 137 (OOMKilled)",
        ),
        (JOB, [KILLED], Reason.POD_KILLED, "1 of its pods ended"),
        (
            JOB,
            [pod("Running", AGAIN)],
            Reason.POD_KILLED,
            "container copy of pod warm-x on node-1 ended and is started again (CrashLoopBackOff): "
            "no bucket, secret=**********: look",
        ),
        (
            JOB,
            [pod("Pending", initContainerStatuses=[AGAIN])],
            Reason.POD_NOT_STARTING,
            "does not start (CrashLoopBackOff: back-off 40s): no bucket, secret=**********: see",
        ),
        (
            JOB,
            [pod("Failed", {"state": {"terminated": ENDED}}), pod("Running")],
            Reason.POD_KILLED,
            "1 of its pods ended, the last with exit code 3 (Error): no bucket, secret=**********: look",
        ),
    ],
)
def test_trouble_is_told_by_the_pods(
    job: dict[str, Any], pods: list[dict[str, Any]], reason: Reason | None, words: str
) -> None:
    trouble = trouble_of(job, pods, pods[-1] if pods else None, NOW)
    assert (trouble.waiting.reason if trouble else None) == reason
    assert words in (trouble.waiting.message if trouble else "")


PROCESS = {
    "apiVersion": "data.fluid.io/v1alpha1",
    "kind": "DataProcess",
    "metadata": {"name": "count", "namespace": "default", "annotations": {}},
    "spec": {
        "dataset": {"name": "imagenet", "namespace": "default", "mountPath": "/data"},
        "processor": {"script": {"source": "ls /data", "image": "there/is", "imageTag": "none"}},
    },
}


@pytest.fixture
def busy(world: OperatorWorld) -> OperatorWorld:
    """A dataset with an operation whose pod cannot begin."""
    world.cluster.job_pods = pod("Pending", waiting("ErrImagePull"), scheduled=datetime.now(UTC))["status"]
    world.declare(f"{SEED}---\n{yaml.safe_dump(PROCESS)}")
    for _ in range(12):
        world.reconcile()
    return world


def said(world: OperatorWorld) -> tuple[str, dict[str, str]]:
    status = world.get("DataProcess", "count")["status"]
    return status["phase"], {each["type"]: each["reason"] for each in status["conditions"]}


def events(world: OperatorWorld) -> list[str]:
    return [each["reason"] for each in world.cluster.of("Event") if each["involvedObject"]["name"] == "count"]


def test_an_operation_says_what_its_pod_lacks_and_that_it_has_it(busy: OperatorWorld) -> None:
    assert said(busy) == ("Executing", {"Waiting": "NothingToWaitFor", "Degraded": "ImageNotPulled"})
    assert "ImageNotPulled" in events(busy)
    busy.cluster.job_pods = {"phase": "Running"}
    for _ in range(3):
        busy.reconcile()
    assert said(busy)[1]["Degraded"] == "NothingIsWrong"
    busy.cluster.job_pods = {"phase": "Succeeded"}
    for _ in range(3):
        busy.reconcile()
    assert said(busy)[0] == "Complete"


def test_what_cannot_begin_for_too_long_is_given_up_and_its_job_goes(busy: OperatorWorld) -> None:
    then = datetime.now(UTC) - timedelta(minutes=11)
    busy.cluster.job_pods = pod("Pending", waiting("ErrImagePull"), scheduled=then)["status"]
    for _ in range(4):
        busy.reconcile()
    phase, conditions = said(busy)
    assert (phase, conditions["Failed"]) == ("Failed", "ImageNotPulled")
    assert not busy.cluster.of("Job")
    for _ in range(3):
        busy.reconcile()
    assert said(busy)[0] == "Failed"
    assert not busy.cluster.of("Job")


def test_why_an_operation_cannot_be_ordered_is_said(world: OperatorWorld) -> None:
    world.cluster.busy.add(("create", "Job"))
    world.declare(f"{SEED}---\n{yaml.safe_dump(PROCESS)}")
    for _ in range(12):
        world.reconcile()
    waiting = world.get("DataProcess", "count")["status"]["conditions"][0]
    assert waiting["reason"] == "OperationStarting"
    assert "too many requests" in waiting["message"]
    world.cluster.busy.clear()
    for _ in range(4):
        world.reconcile()
    assert said(world) == ("Executing", {"Waiting": "NothingToWaitFor"})
