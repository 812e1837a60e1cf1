"""Where a role stands, from its pod and from what the master says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.operator.role_states import AllRoleStates, ProbeResults, RoleStates, role_facts
from headrace.plan.observed import RoleState

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
STARTED = NOW - timedelta(minutes=1)
READY = [{"type": "Ready", "status": "True"}]
UNSCHEDULABLE = [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
]
ROW = {"id": "worker-0", "state": "active", "is_listed": True, "started_at_s": STARTED.timestamp() + 1}


def waiting(reason: str, words: str = "") -> list[dict[str, Any]]:
    ended = {"terminated": {"message": words, "exitCode": 3}}
    return [{"state": {"waiting": {"reason": reason}}, "lastState": ended}]


def pod(
    status: dict[str, Any],
    *,
    kind: str = "worker",
    node: str = "node-1",
    noted: str = "t.r@r1",
    leaving: bool = False,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": f"imagenet-{kind}-0",
        "uid": "u1",
        "labels": {"app.kubernetes.io/component": kind},
        "annotations": {"headrace.io/version": noted},
    }
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-31T09:30:00Z"
    return {"metadata": metadata, "spec": {"nodeName": node, "claims": []}, "status": status}


def probes(
    *rows: dict[str, Any],
    answers: bool = True,
    nodes: tuple[str, ...] = (),
    present: tuple[str, ...] = ("node-1",),
) -> ProbeResults:
    rendered = dict.fromkeys(("master", "worker", "mount"), "r1")
    return ProbeResults({"workers": rows} if answers else None, rendered, nodes, NOW, frozenset(present))


@pytest.mark.parametrize(
    ("given", "seen", "state", "reason"),
    [
        (pod({"conditions": READY}), probes(ROW), RoleState.READY, ""),
        (pod({"conditions": READY}), probes(), RoleState.STARTING, ""),
        (pod({"conditions": []}), probes(ROW), RoleState.STARTING, ""),
        (pod({"conditions": READY}), probes({**ROW, "is_listed": False}), RoleState.STARTING, ""),
        (pod({"conditions": READY}), probes({**ROW, "state": "draining"}), RoleState.DRAINING, ""),
        (pod({"conditions": READY}), probes(answers=False), RoleState.READY, ""),
        (pod({"conditions": READY}, leaving=True), probes(ROW), RoleState.STARTING, ""),
        (pod({"conditions": READY}, leaving=True), probes(ROW, present=()), RoleState.ENDED, ""),
        (pod({"conditions": []}), probes(ROW, present=()), RoleState.STARTING, ""),
        (pod({"containerStatuses": waiting("CrashLoopBackOff")}), probes(), RoleState.FAILED, "Unexpected"),
        (pod({"containerStatuses": waiting("ErrImagePull")}), probes(), RoleState.FAILED, "NoImage"),
        (pod({"containerStatuses": waiting("ContainerCreating")}), probes(), RoleState.STARTING, ""),
        (pod({"conditions": UNSCHEDULABLE}), probes(), RoleState.FAILED, "NoNode"),
        (pod({"phase": "Failed", "reason": "Evicted"}), probes(), RoleState.FAILED, "Unexpected"),
        (pod({"conditions": READY}, kind="master"), probes(), RoleState.READY, ""),
        (pod({"conditions": READY}, kind="master"), probes(answers=False), RoleState.STARTING, ""),
        (pod({"conditions": READY}, kind="mount"), probes(answers=False), RoleState.READY, ""),
        (pod({"conditions": []}, kind="mount"), probes(), RoleState.STARTING, ""),
    ],
)
def test_a_pod_and_the_master_s_word_make_a_state(
    given: dict[str, Any], seen: ProbeResults, state: RoleState, reason: str
) -> None:
    (facts,) = role_facts([given], seen, RoleStates())
    assert (facts.state, facts.reason) == (state, reason)


def crashing(times: int, ago: timedelta = timedelta(seconds=20), code: int = 3) -> dict[str, Any]:
    ended = {
        "exitCode": code,
        "finishedAt": f"{NOW - ago:%Y-%m-%dT%H:%M:%SZ}",
        "message": "serving\nerror: the state folder is read-only, token=abc\nhint: make it writable\n",
    }
    state = {"running": {"startedAt": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"}}
    each = {"restartCount": times, "ready": False, "state": state, "lastState": {"terminated": ended}}
    return {"conditions": [], "containerStatuses": [each]}


@pytest.mark.parametrize("which", ["containerStatuses", "initContainerStatuses"])
def test_what_ends_again_and_again_says_why_also_while_it_runs_once_more(which: str) -> None:
    status = {which: crashing(3)["containerStatuses"]}
    (facts,) = role_facts([pod(status, kind="master")], probes(answers=False), RoleStates())
    assert (facts.state, facts.reason) == (RoleState.STARTING, "Unexpected")
    assert facts.message == (
        "its container ends again and again: the state folder is read-only, token=**********"
    )


@pytest.mark.parametrize(
    "status", [crashing(1), crashing(5, timedelta(minutes=11)), crashing(5, code=0), {"conditions": []}]
)
def test_what_starts_for_another_reason_has_no_fault(status: dict[str, Any]) -> None:
    (facts,) = role_facts([pod(status, kind="master")], probes(answers=False), RoleStates())
    assert (facts.state, facts.reason, facts.message) == (RoleState.STARTING, "", "")


def test_an_image_that_cannot_be_had_is_told_by_its_name() -> None:
    why = {"reason": "ErrImagePull", "message": "no such\nmanifest"}
    status = {"containerStatuses": [{"image": "headrace/engine:typo", "state": {"waiting": why}}]}
    (facts,) = role_facts([pod(status)], probes(), RoleStates())
    assert facts.message == "image headrace/engine:typo cannot be had (ErrImagePull: no such manifest)"


def test_a_row_of_an_earlier_life_is_not_this_one_s() -> None:
    status = {
        "conditions": READY,
        "containerStatuses": [{"state": {"running": {"startedAt": "2026-01-31T09:29:59Z"}}}],
    }
    (facts,) = role_facts([pod(status)], probes(ROW), RoleStates())
    assert facts.state is RoleState.STARTING


def test_who_has_handed_over_and_is_told_of_no_more_has_ended() -> None:
    role_states, given = RoleStates(), pod({"conditions": READY})
    role_facts([given], probes({**ROW, "state": "draining"}), role_states)
    (facts,) = role_facts([given], probes(), role_states)
    assert facts.state is RoleState.ENDED


def test_a_pod_that_was_made_otherwise_is_old() -> None:
    versions = [
        role_facts([pod({}, noted=noted)], probes(), RoleStates())[0].version
        for noted in ("t.r@r1", "t.r@r0", "")
    ]
    assert versions == ["t.r", "t.r*", "*"]


def test_a_pod_without_a_node_counts_where_it_may_go_or_not_at_all() -> None:
    given = pod({}, node="")
    (facts,) = role_facts([given], probes(nodes=("node-7",)), RoleStates())
    assert facts.node == "node-7"
    assert role_facts([given], probes(), RoleStates()) == ()


def test_a_pod_that_waits_for_the_nodes_of_an_earlier_plan_counts_nowhere() -> None:
    given = pod({}, node="")
    given["metadata"]["annotations"]["headrace.io/nodes"] = '["node-1"]'
    assert role_facts([given], probes(nodes=("node-1",)), RoleStates())
    assert role_facts([given], probes(nodes=("node-1", "node-2")), RoleStates()) == ()


def test_the_last_words_of_a_container_are_passed_on() -> None:
    given = pod({"containerStatuses": waiting("CrashLoopBackOff", "first\nthe bucket is missing\n")})
    (facts,) = role_facts([given], probes(), RoleStates())
    assert facts.message.endswith("the bucket is missing")


def test_pods_that_are_gone_are_forgotten() -> None:
    role_states = AllRoleStates()
    role_facts([pod({})], probes(), role_states.of("default/imagenet"))
    assert role_states.of("default/imagenet").before("u1") is RoleState.STARTING
    role_facts([], probes(), role_states.of("default/imagenet"))
    assert role_states.of("default/imagenet") == RoleStates()
    role_states.forget("default/imagenet")
    assert role_states == AllRoleStates()
