"""`status.cacheAffinity` of a runtime: the nodes that hold data, for whoever schedules the pods that read it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from planned import SEED, START

from headrace.api.jindo import JindoRuntime
from headrace.api.manifests import read_objects
from headrace.api.writing import part_content
from headrace.plan.observed import Node, Observed, RoleFacts, RoleState
from headrace.plan.runtime_status import Workforce, runtime_status
from headrace.webhook.data_nodes import terms_of

HOST = "kubernetes.io/hostname"
(RUNTIME,) = (each for each in read_objects(SEED, "seed") if isinstance(each, JindoRuntime))


def worker(name: str, node: str | None, state: RoleState = RoleState.READY) -> RoleFacts:
    return RoleFacts(name, "worker", node, state, "v", START)


def affinity(*roles: RoleFacts, nodes: tuple[Node, ...] = ()) -> Any:
    workforce = Workforce(
        runtime=RUNTIME,
        observed=Observed(nodes=nodes, roles=roles),
        wanted=frozenset(role.id for role in roles),
        workers=len(roles),
        waiting=None,
        degraded=None,
        cache_states={},
        is_bound=True,
    )
    return runtime_status(workforce, START).cache_affinity


def hosts(found: Any) -> tuple[str, ...] | None:
    if found is None:
        return None
    (term,) = found.required_during_scheduling_ignored_during_execution.node_selector_terms
    (condition,) = term.match_expressions
    assert (condition.key, condition.operator) == (HOST, "In")
    return tuple(condition.values)


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ((), None),
        ((worker("worker-0", None),), None),
        ((worker("worker-0", "b"), worker("worker-1", "a")), ("a", "b")),
        ((worker("worker-0", "a"), worker("worker-1", "a")), ("a",)),
        # Its folder keeps the data while it starts again.
        (
            (worker("worker-0", "a", RoleState.STARTING), worker("worker-1", "b", RoleState.FAILED)),
            ("a", "b"),
        ),
        ((worker("worker-0", "a", RoleState.DRAINING), worker("worker-1", "b")), ("b",)),
        ((worker("worker-0", "a", RoleState.ENDED),), None),
        ((dataclasses.replace(worker("mount-a", "a"), role="mount"),), None),
        ((dataclasses.replace(worker("master-0", "a"), role="master"), worker("worker-0", "b")), ("b",)),
    ],
    ids=["nothing", "no node", "sorted", "once", "again", "leaving", "gone", "only a mount", "master"],
)
def test_nodes_that_hold_data(roles: tuple[RoleFacts, ...], expected: tuple[str, ...] | None) -> None:
    assert hosts(affinity(*roles)) == expected


def test_a_node_is_named_by_its_label_where_that_differs_from_its_name() -> None:
    node = Node("ip-10-0-0-1.internal", {HOST: "ip-10-0-0-1"})
    assert hosts(affinity(worker("worker-0", node.name), nodes=(node,))) == ("ip-10-0-0-1",)


def test_what_is_written_into_the_status_is_what_the_webhook_reads() -> None:
    status = {"cacheAffinity": part_content(affinity(worker("worker-0", "a"), worker("worker-1", "b")))}
    (term,) = terms_of(status["cacheAffinity"])
    assert term == {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["a", "b"]}]}
