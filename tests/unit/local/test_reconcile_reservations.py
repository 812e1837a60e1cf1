"""Datasets that are looked at at the same time do not get the same node."""

from __future__ import annotations

import pytest
from planned import SEED, World, gpu_nodes

from headrace.local.processes.role_processes import RoleOrder, RoleRecord
from headrace.local.reconcile.reservations import Reservations

IMAGENET, OTHER = "default/imagenet", "default/other"


@pytest.fixture
def reservations() -> Reservations:
    made = Reservations()
    made.note(IMAGENET, World.of(SEED).plan())
    return made


def test_what_was_planned_is_taken_before_it_runs(reservations: Reservations) -> None:
    others = reservations.others(OTHER, [], frozenset({IMAGENET}))
    assert sorted(others) == ["node-1", "node-2", "node-3", "node-4"]
    assert {(each.dataset, each.is_exclusive) for (each,) in others.values()} == {(IMAGENET, True)}
    assert reservations.others(IMAGENET, [], frozenset()) == {}


def test_what_runs_and_was_planned_counts_once(reservations: Reservations) -> None:
    order = RoleOrder("default.imagenet.worker-0", "default", "imagenet", "worker", "node-1", (), "log")
    others = reservations.others(OTHER, [RoleRecord(order)], frozenset())
    assert len(others["node-1"]) == 1


def test_a_dataset_that_is_gone_holds_nothing(reservations: Reservations) -> None:
    reservations.forget(IMAGENET)
    assert reservations.others(OTHER, [], frozenset()) == {}


def worker(node: str, dataset: str = "imagenet") -> RoleRecord:
    order = RoleOrder(f"default.{dataset}.worker-{node}", "default", dataset, "worker", node, (), "log")
    return RoleRecord(order, state="running")


def test_a_node_is_given_up_when_nothing_runs_there_and_nothing_is_to(reservations: Reservations) -> None:
    running = [worker(f"node-{number}") for number in range(1, 5)]
    assert not reservations.gave_up(IMAGENET, running)
    assert not reservations.gave_up(IMAGENET, running[1:]), "a worker that crashed comes back"
    smaller = World.of(SEED.replace("replicas: 4", "replicas: 3")).plan()
    reservations.note(IMAGENET, smaller, 3)
    assert not reservations.gave_up(IMAGENET, running), "it still drains"
    assert reservations.gave_up(IMAGENET, running[:3])
    assert not reservations.gave_up(IMAGENET, running[:3]), "told once"
    reservations.forget(IMAGENET)
    assert reservations.gave_up(IMAGENET, [])


def test_datasets_with_too_few_workers_lack_nodes_until_they_have_them(reservations: Reservations) -> None:
    few, enough = World.of(SEED, gpu_nodes(2)).plan(), World.of(SEED).plan()
    reservations.note(OTHER, few, 4)
    assert reservations.lacking(IMAGENET) == {OTHER}
    assert reservations.lacking(OTHER) == frozenset()
    reservations.note(OTHER, enough, 4)
    assert reservations.lacking(IMAGENET) == frozenset()
    reservations.note(OTHER, few, 4)
    reservations.forget(OTHER)
    assert reservations.lacking(IMAGENET) == frozenset()


def test_a_dataset_that_cannot_go_on_keeps_no_node_from_others(reservations: Reservations) -> None:
    context = World.of(SEED)
    context.see(secrets={})
    held = context.plan()
    assert held.holds
    reservations.note(IMAGENET, held)
    assert reservations.others(OTHER, [], frozenset()) == {}
