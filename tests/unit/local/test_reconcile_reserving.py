"""Datasets that are looked at at the same time do not get the same node."""

from __future__ import annotations

import pytest
from planned import SEED, World

from headrace.local.reconcile.reserving import Reservations
from headrace.local.roles import RoleOrder, RoleRecord

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


def test_a_dataset_that_cannot_go_on_keeps_no_node_from_others(reservations: Reservations) -> None:
    world = World.of(SEED)
    world.see(secrets={})
    held = world.plan()
    assert held.holds
    reservations.note(IMAGENET, held)
    assert reservations.others(OTHER, [], frozenset()) == {}
