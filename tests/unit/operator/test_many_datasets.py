"""What a look at one of a thousand datasets costs is counted in objects that are looked at, not in seconds."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Hashable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from operator_context import SETTINGS
from planned import GPU, SEED

from headrace.operator.desired_state import DesiredState
from headrace.operator.mirror import Content, Index, Mirror
from headrace.operator.observer import observe
from headrace.operator.reference_index import affected_datasets
from headrace.operator.reservations import Reservations
from headrace.operator.role_states import RoleStates
from headrace.plan.plan import plan

MANY, NODES = 1000, 8
DATASET, RUNTIME = yaml.safe_load_all(SEED)


class CountingMirror(Mirror):
    """Counts the objects that it hands out one after the other."""

    seen = 0

    def all(self, kind: str, namespace: str | None = None) -> Iterator[Content]:
        for content in super().all(kind, namespace):
            self.seen += 1
            yield content

    def having(self, index: Index, key: Hashable) -> list[Content]:
        found = super().having(index, key)
        self.seen += len(found)
        return found


def named(content: dict[str, Any], number: int) -> dict[str, Any]:
    made = copy.deepcopy(content)
    made["metadata"] |= {"name": f"data-{number}", "namespace": "default", "uid": f"uid-{number}"}
    return made


def labelled(kind: str, name: str, number: int, component: str, **more: Any) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/managed-by": "headrace-operator",
        "app.kubernetes.io/component": component,
        "headrace.io/dataset": f"data-{number}",
    }
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {"kind": kind, "metadata": metadata, **more}


def objects(number: int) -> Iterator[dict[str, Any]]:
    """All that is there for one dataset, all in one namespace."""
    name, node = f"data-{number}", f"node-{number % NODES + 1}"
    dataset = named(DATASET, number)
    dataset["spec"]["mounts"] += [{"mountPoint": f"dataset://default/data-{number - 1}", "name": "other"}]
    yield dataset
    yield named(RUNTIME, number)
    yield labelled("StatefulSet", f"{name}-worker", number, "worker", spec={"replicas": 1})
    yield labelled("Pod", f"{name}-worker-0", number, "worker", spec={"nodeName": node}, status={})
    yield labelled("Secret", f"{name}-headrace-token", number, "", data={"token": "eA=="})
    volume = {"persistentVolumeClaim": {"claimName": name}}
    metadata = {"name": f"train-{number}", "namespace": "default", "uid": f"t-{number}", "labels": {}}
    yield {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node, "volumes": [volume]}, "status": {}}
    load = {"dataset": {"name": name, "namespace": "default"}}
    yield {"kind": "DataLoad", "metadata": {"name": f"load-{number}", "namespace": "default"}, "spec": load}


@pytest.fixture(scope="module")
def mirror() -> CountingMirror:
    """A cluster with a thousand datasets, on a few nodes. It takes a second, since there are seven thousand objects."""
    made = CountingMirror(b"key")
    for number in range(1, NODES + 1):
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        made.put("Node", {"metadata": {"name": f"node-{number}", "labels": GPU}, "status": ready})
    for number in range(MANY):
        for content in objects(number):
            made.put(content["kind"], content)
    return made


def reconcile(mirror: CountingMirror, reservations: Reservations, number: int) -> None:
    """All that a look asks of the mirror before it plans, and the plan."""
    desired, now = DesiredState(mirror, ("default", f"data-{number}")), datetime.now(UTC)
    view = asyncio.run(observe(desired, SETTINGS, RoleStates(), now))
    assert [facts.id for facts in view.observed.roles] == ["worker-0"]
    assert len(view.observed.users) == 1
    assert [each.name for each in desired.operations] == [f"load-{number}"]
    assert desired.referrers == (f"default/data-{number + 1}",)
    assert desired.declared is not None
    plan(desired.declared, view.observed, now)
    assert desired.title not in {each.dataset for each in reservations.others(desired.title)["node-1"]}


def test_a_look_at_one_of_many_goes_through_its_own_things_alone(mirror: CountingMirror) -> None:
    reservations = Reservations(mirror, "headrace-system")
    reconcile(mirror, reservations, 1)
    begun = mirror.seen
    for number in range(100, 110):
        reconcile(mirror, reservations, number)
    # Nodes are gone through a few times; the workers of the one node that is asked for are 125.
    assert (mirror.seen - begun) / 10 < NODES * 4 + MANY / NODES + 20


@pytest.mark.parametrize(
    "kind", ["Dataset", "JindoRuntime", "Pod", "Secret", "PersistentVolumeClaim", "DataLoad"]
)
def test_a_change_is_told_to_whom_it_matters_without_a_search(mirror: CountingMirror, kind: str) -> None:
    names = {"Secret": "data-7-headrace-token", "Pod": "train-7", "DataLoad": "load-7"}
    claim = {"metadata": {"name": "data-7", "namespace": "default"}}
    content = mirror.get(kind, "default", names.get(kind, "data-7")) or claim
    affected_datasets(mirror, kind, content, content)
    begun = mirror.seen
    found = affected_datasets(mirror, kind, None, content)
    assert ("default", "data-7") in found
    assert mirror.seen - begun < 20


def test_what_is_changed_and_deleted_is_found_so(mirror: CountingMirror) -> None:
    reservations = Reservations(mirror, "headrace-system")
    before = len(reservations.on("node-1"))
    (pod,) = DesiredState(mirror, ("default", "data-8")).pods()
    mirror.put("Pod", {**pod, "spec": {"nodeName": "node-2"}})
    assert len(reservations.on("node-1")) == before - 1
    assert "default/data-8" in reservations.on("node-2")
    mirror.drop("Pod", ("default", "data-8-worker-0"))
    assert "default/data-8" not in reservations.on("node-2")
    assert DesiredState(mirror, ("default", "data-8")).pods() == []
