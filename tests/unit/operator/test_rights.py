"""The chart gives the operator exactly the rights that its calls need: no call is refused, and no right is unused.

What is needed is seen while a dataset lives a whole life, with operations and accidents, not read from a list.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import yaml
from charts import named, render
from operator_context import SETTINGS, OperatorWorld
from planned import SEED

from headrace.api.kinds import OPERATIONS, RUNTIMES
from headrace.kube.client import KubeClient
from headrace.kube.leadership import Leadership
from headrace.kube.resources import RESOURCES
from headrace.operator.informers import FOLLOWED
from headrace.operator.operator_process import digest_key

Right = tuple[str, str, str]
"""API group, resource (with its part), verb."""

VERBS = {
    "get": ("get",),
    "create": ("create",),
    "replace": ("update",),
    # What is applied is made where it is not there.
    "apply": ("create", "patch"),
    "patch": ("patch",),
    "delete": ("delete",),
}
PROCESS = {
    "apiVersion": "data.fluid.io/v1alpha1",
    "kind": "DataProcess",
    "metadata": {"name": "count", "namespace": "default", "annotations": {}},
    "spec": {
        "dataset": {"name": "imagenet", "namespace": "default", "mountPath": "/data"},
        "processor": {"script": {"source": "ls /data", "image": "there/is", "imageTag": "one"}},
        "ttlSecondsAfterFinished": 0,
    },
}


class Calls:
    """Every call of the operator, with its namespace."""

    def __init__(self, world: OperatorWorld) -> None:
        self.seen: set[tuple[Right, str]] = set()
        for verb in ("get", "create", "replace", "apply", "patch", "delete"):
            setattr(world.cluster, verb, self._recorded(verb, getattr(world.cluster, verb)))

    def _recorded(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        async def recorded(*words: Any, **more: Any) -> Any:
            about = words[0] if isinstance(words[0], dict) else None
            kind = about["kind"] if about else words[0]
            namespace = about["metadata"].get("namespace") if about else words[1]
            part = words[4] if len(words) > 4 else ""
            for each in VERBS[verb]:
                self.note(kind, each, namespace or "", part)
            return await call(*words, **more)

        return recorded

    def note(self, kind: str, verb: str, namespace: str = "", part: str = "") -> None:
        """One call. Runtimes and operations of all kinds go the same ways."""
        alike = next((kinds for kinds in (RUNTIMES, OPERATIONS) if kind in kinds), (kind,))
        for each in alike:
            resource = RESOURCES[each]
            name = f"{resource.plural}/{part}" if part else resource.plural
            self.seen.add(((resource.group, name, verb), namespace))


def looks(world: OperatorWorld, count: int = 8) -> None:
    for _ in range(count):
        world.now = (world.now or datetime.now(UTC)) + timedelta(seconds=5)
        world.reconcile()


def live(world: OperatorWorld) -> None:
    """A dataset comes, is used, changed and harmed, and goes."""
    world.masters.hands_over = True
    world.declare(f"{SEED}---\n{yaml.safe_dump(PROCESS)}")
    looks(world, 14)
    world.cluster.remove(("Job", "default", world.cluster.of("Job")[0]["metadata"]["name"]))
    looks(world)
    world.declare(yaml.safe_dump(PROCESS))
    looks(world, 4)
    world.cluster.remove(("DataProcess", "default", "count"))
    world.declare(SEED.replace("replicas: 4", "replicas: 2"))
    looks(world)
    claim, volume = ("PersistentVolumeClaim", "default", "imagenet"), ("PersistentVolume", "", "imagenet")
    bound = world.cluster.objects[volume]
    bound["spec"]["claimRef"]["uid"] = world.cluster.objects[claim]["metadata"]["uid"]
    world.cluster._store(volume, bound)
    world.cluster.remove(claim)
    token = ("Secret", "default", "imagenet-headrace-token")
    world.cluster._store(token, {**world.cluster.objects[token], "data": {}})
    looks(world)
    data = {"fs.oss.accessKeyId": "bmV3", "fs.oss.accessKeySecret": "bmV3"}
    key = ("Secret", "default", "mysecret")
    world.cluster._store(key, {**world.cluster.objects[key], "data": data})
    looks(world)
    for kind in ("Dataset", "JindoRuntime"):
        world.cluster.remove((kind, "default", "imagenet"))
    looks(world, 16)


async def lead(client: KubeClient) -> None:
    """Two lives of an operator's process: it leads, renews, and gives back."""
    terms = dataclasses.replace(Leadership(client, "headrace-system", "l", "a")._terms, retry_s=0.01)
    for name in ("a", "b"):
        leadership = Leadership(client, "headrace-system", SETTINGS.lease, name, terms=terms)
        await leadership.acquire()
        await leadership.release()
    await digest_key(client, "headrace-system")


@pytest.fixture
def calls(world: OperatorWorld) -> Calls:
    """All that is asked for in the life of a dataset, and in that of the operator."""
    found = Calls(world)
    for followed in FOLLOWED:
        for verb in ("list", "watch"):
            found.note(followed.kind, verb)
    asyncio.run(lead(cast("KubeClient", world.cluster)))
    live(world)
    return found


def given(kind: str) -> set[Right]:
    """The rights in a role of the chart."""
    return {
        (group, resource, verb)
        for rule in named(render(), kind, "headrace-operator")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_chart_gives_what_the_operator_asks_for_and_nothing_else(calls: Calls) -> None:
    asked = {right for right, _ in calls.seen}
    allowed = given("ClusterRole") | given("Role")
    refused = sorted(asked - allowed)
    assert not refused, f"these calls are refused: {refused}"
    unused = sorted(allowed - asked)
    assert not unused, f"these rights are of no use: {unused}"


def test_what_may_be_done_in_the_own_namespace_alone_is_done_there(calls: Calls) -> None:
    own = given("Role") - given("ClusterRole")
    elsewhere = {(right, place) for right, place in calls.seen if right in own and place != "headrace-system"}
    assert elsewhere == set()
