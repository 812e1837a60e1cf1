"""Each step of a plan is one thing to do in the cluster: a table of steps and of what is asked for."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime

import pytest
from operator_context import SETTINGS, OperatorWorld
from planned import GPU, SEED

from headrace.operator.desired_state import DesiredState
from headrace.operator.executor import Executor
from headrace.operator.observer import observe
from headrace.operator.role_states import RoleStates
from headrace.plan.plan import Plan, plan
from headrace.plan.steps import Steps

KEY = ("default", "imagenet")
MOUNTED = "mount-node-1"


@pytest.fixture
def served(world: OperatorWorld) -> OperatorWorld:
    """A dataset with three workers, on four nodes."""
    world.declare(SEED.replace("replicas: 4", "replicas: 3"))
    world.settle()
    return world


def take(
    world: OperatorWorld, steps: Steps, *, wanted: frozenset[str] | None = None
) -> list[tuple[str, str, str]]:
    """What is asked of the API server when just these steps are to be taken, with the roles that are wanted."""
    world.sync()
    desired, now = DesiredState(world.mirror, KEY), datetime.now(UTC)
    begun = len(world.cluster.writes)

    async def run() -> None:
        view = await observe(desired, SETTINGS, RoleStates(), now)
        assert desired.declared is not None
        planned: Plan = plan(desired.declared, view.observed, now)
        roles = tuple(role for role in planned.roles if wanted is None or role.id in wanted)
        executor = Executor(world.backend.client, world.backend.masters, desired, view)
        await executor.execute(dataclasses.replace(planned, steps=steps, roles=roles))

    asyncio.run(run())
    return [(verb, kind, name) for verb, kind, name in world.cluster.writes[begun:] if kind not in _FILES]


_FILES = {"Service", "ConfigMap", "Secret"}
"""What pods read, and what they are reached by, is applied before anything is started."""

MASTER_SET = ("apply", "StatefulSet", "imagenet-master")
WORKER_SET = ("apply", "StatefulSet", "imagenet-worker")
MOUNT_SET = ("apply", "DaemonSet", "imagenet-fuse")


@pytest.mark.parametrize(
    ("steps", "wanted", "asked"),
    [
        (Steps(), None, []),
        (Steps(start=("master",)), None, [MASTER_SET]),
        (Steps(start=("worker-0", "worker-1")), None, [WORKER_SET]),
        (Steps(start=(MOUNTED,)), None, [MOUNT_SET]),
        (Steps(start=("master", "worker-0", MOUNTED)), None, [MASTER_SET, WORKER_SET, MOUNT_SET]),
        (Steps(replace=("master",)), None, [MASTER_SET, ("delete(None)", "Pod", "imagenet-master-0")]),
        (Steps(replace=("worker-1",)), None, [WORKER_SET, ("delete(None)", "Pod", "imagenet-worker-1")]),
        # The last worker goes by the size of the set; one in the middle by its pod.
        (
            Steps(stop=("worker-2",)),
            frozenset({"master", "worker-0", "worker-1"}),
            [("patch", "StatefulSet", "imagenet-worker")],
        ),
        (
            Steps(stop=("worker-1",)),
            frozenset({"master", "worker-0", "worker-2"}),
            [WORKER_SET, ("delete(None)", "Pod", "imagenet-worker-1")],
        ),
        (
            Steps(stop=("worker-0", "worker-1", "worker-2")),
            frozenset({"master"}),
            [("delete", "StatefulSet", "imagenet-worker")],
        ),
        (Steps(stop=("master",)), frozenset(), [("delete", "StatefulSet", "imagenet-master")]),
        # The set of mounts goes with the last node of it alone.
        (Steps(stop=(MOUNTED,)), None, [MOUNT_SET]),
        (
            Steps(stop=(MOUNTED, "mount-node-2", "mount-node-3")),
            frozenset({"master"}),
            [("delete", "DaemonSet", "imagenet-fuse")],
        ),
        (Steps(stop=("worker-9",)), None, []),
    ],
)
def test_a_step_asks_for_one_thing(
    served: OperatorWorld, steps: Steps, wanted: frozenset[str] | None, asked: list[tuple[str, str, str]]
) -> None:
    assert take(served, steps, wanted=wanted) == asked


def test_stopped_mounts_leave_where_nobody_reads_alone(served: OperatorWorld) -> None:
    served.use("train", "node-1")
    served.reconcile()
    asked = take(served, Steps(stop=(MOUNTED, "mount-node-2", "mount-node-3")), wanted=frozenset({"master"}))
    assert asked == []


def test_what_is_replaced_is_deleted_as_the_very_pod_that_was_seen(served: OperatorWorld) -> None:
    uid = served.cluster.objects["Pod", "default", "imagenet-worker-0"]["metadata"]["uid"]
    take(served, Steps(replace=("worker-0",)))
    assert uid not in {pod["metadata"]["uid"] for pod in served.cluster.of("Pod")}


@pytest.mark.parametrize("steps", [Steps(stop=("worker-2",)), Steps(replace=("worker-2",))])
def test_a_pod_of_a_lost_node_is_taken_away_by_force(served: OperatorWorld, steps: Steps) -> None:
    node = served.pods()["imagenet-worker-2"]
    served.cluster.add_node(node, GPU, ready=False)
    wanted = frozenset({"master", "worker-0", "worker-1", "worker-2"})
    assert ("delete(0)", "Pod", "imagenet-worker-2") in take(served, steps, wanted=wanted)


def test_files_are_there_before_the_pods_that_read_them(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    kinds = [kind for _, kind, _ in world.cluster.writes]
    first = {
        kind: kinds.index(kind) for kind in ("Secret", "Service", "ConfigMap", "StatefulSet", "DaemonSet")
    }
    assert max(first["Secret"], first["Service"], first["ConfigMap"]) < first["StatefulSet"]
    assert first["StatefulSet"] < first["DaemonSet"]
