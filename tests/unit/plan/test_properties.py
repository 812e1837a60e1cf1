"""What holds of plans whatever is declared and whatever happens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from planned import MYSECRET, SEED, World, changed, gpu_nodes, mysecret, objects
from property_examples import examples

from headrace.plan.condition_meanings import DATASET as DATASET_CONDITIONS
from headrace.plan.condition_meanings import RUNTIME as RUNTIME_CONDITIONS
from headrace.plan.condition_times import condition_of
from headrace.plan.observed import ClaimFacts, ClaimState, Node, OtherWorker, RoleState
from headrace.plan.outcome import Plan

DATASET, RUNTIME = objects(SEED)
OSS = {
    "mountPoint": "oss://bucket/imagenet",
    "name": "imagenet",
    "options": {"fs.oss.endpoint": "oss.example"},
}
MOUNTS = [
    OSS,
    {"mountPoint": "s3://corpus", "name": "text", "options": {"aws.region": "eu-west-1", "cacheStrategy": "DHT"}},
    {"mountPoint": "pvc://data/train", "name": "claim"},
    {"mountPoint": "http://host/files/", "name": "web", "encryptOptions": [
        {"name": "token", "valueFrom": {"secretKeyRef": {"name": "mysecret", "key": "fs.oss.accessKeyId"}}}]},
]  # fmt: skip
LEVELS = [
    {"mediumtype": "MEM", "path": "/dev/shm", "quota": "8Gi"},
    {"mediumtype": "SSD", "path": "/ssd1,/ssd2", "quotaList": "50Gi,20G", "high": "0.9"},
    {"mediumtype": "HDD", "path": "/hdd", "quota": "1Ti", "low": "0.5"},
]
CLAIMS = {
    "data": ClaimFacts(ClaimState.PRESENT, "nfs://10.0.0.9/export", nodes=("node-1", "node-2", "node-3"))
}

datasets = st.builds(
    lambda mounts, placement: changed(DATASET, mounts=mounts, placement=placement),
    st.lists(st.sampled_from(MOUNTS), min_size=1, max_size=4, unique_by=lambda mount: mount["name"]),
    st.sampled_from(["Exclusive", "Shared"]),
)
runtimes = st.builds(
    lambda replicas, levels, fuse: changed(
        RUNTIME, replicas=replicas, tieredstore={"levels": levels}, fuse=fuse
    ),
    st.integers(0, 5),
    st.lists(st.sampled_from(LEVELS), max_size=3, unique_by=lambda level: level["mediumtype"]),
    st.sampled_from([{}, {"cleanPolicy": "OnDemand"}, {"disabled": True}]),
)


def world_of(dataset: Any, runtime: Any) -> World:
    world = World(dataset, runtime, (*gpu_nodes(4), Node("node-5")))
    world.see(claims=CLAIMS)
    return world


def look_often(world: World, times: int = 14) -> Plan:
    """Whatever becomes of it: not everything gets ready."""
    return [world.reconcile() for _ in range(times)][-1]


@settings(max_examples=examples(20, in_a_soak=60), deadline=None)
@given(dataset=datasets, runtime=runtimes, later_s=st.integers(0, 86400))
def test_planning_what_was_applied_changes_nothing(dataset: Any, runtime: Any, later_s: int) -> None:
    world = world_of(dataset, runtime)
    before = look_often(world)
    world.now += timedelta(seconds=later_s if _is_ready(before) else 0)
    after = world.plan()
    assert not after.steps
    assert not after.events
    assert (after.roles, after.volume, after.finalizers) == (before.roles, before.volume, before.finalizers)
    assert (after.dataset_status, after.runtime_status) == (before.dataset_status, before.runtime_status)


def _is_ready(made: Plan) -> bool:
    ready = condition_of(made.dataset_status.conditions, "Ready") if made.dataset_status else None
    return ready is not None and ready.status == "True"


Happening = Callable[[World], None]


def _happenings(dataset: Any, runtime: Any) -> dict[str, Happening]:
    def appears(name: str, thing: Any) -> Happening:
        return lambda world: setattr(world, name, thing)

    return {
        "dataset": appears("dataset", dataset),
        "runtime": appears("runtime", runtime),
        "secret": lambda world: world.see(secrets={"mysecret": MYSECRET}),
        "claim": lambda world: world.see(claims=CLAIMS),
        "nodes": lambda world: world.see(nodes=gpu_nodes(4)),
        "use": lambda world: world.use(("process 1 (sh)", "node-3")),
        "data": lambda world: setattr(world, "data", dataclasses.replace(world.data, snapshot_version=1)),
    }


@settings(max_examples=examples(20, in_a_soak=60), deadline=None)
@given(dataset=datasets, runtime=runtimes, data=st.data())
def test_any_order_of_events_ends_in_the_same_plan(dataset: Any, runtime: Any, data: st.DataObject) -> None:
    happenings = _happenings(dataset, runtime)
    ends = []
    for order in (list(happenings), data.draw(st.permutations(list(happenings)))):
        world = World(None, None)
        world.see(nodes=(Node("node-0"),), secrets={})
        world.data = dataclasses.replace(world.data, snapshot_version=0)
        for name in order:
            happenings[name](world)
            if world.dataset or world.runtime:
                world.reconcile()
        ends.append(look_often(world))
    first, second = ends
    assert first.roles == second.roles
    assert (first.volume, first.finalizers, first.steps) == (second.volume, second.finalizers, second.steps)
    assert _timeless(first) == _timeless(second)


def _timeless(made: Plan) -> Any:
    """What a status says now: no moments, and nothing of what was once so and is over."""
    status = made.dataset_status
    assert status is not None
    conditions = {each.type: (each.status, each.reason, each.message) for each in status.conditions}
    held = {kind: said for kind, said in conditions.items() if kind == "Ready" or said[0] == "True"}
    return status.phase, status.ufs_total, status.cache_states, status.mounts, status.runtimes, held


@settings(max_examples=examples(20, in_a_soak=60), deadline=None)
@given(dataset=datasets, runtime=runtimes, other=runtimes, more=datasets)
def test_removing_what_was_added_restores(dataset: Any, runtime: Any, other: Any, more: Any) -> None:
    """But for mounts, which stay once they are there unless the clean policy says otherwise."""
    world = world_of(dataset, runtime)
    before = look_often(world)
    world.dataset = _with_status(more, world.dataset)
    world.runtime = _with_status(other, world.runtime)
    look_often(world, 20)
    world.dataset = _with_status(dataset, world.dataset)
    world.runtime = _with_status(runtime, world.runtime)
    after = look_often(world, 20)
    assert not after.steps
    assert _without_mounts(before) == _without_mounts(after)


def _with_status(thing: Any, old: Any) -> Any:
    return thing.model_copy(update={"status": old.status})


def _without_mounts(made: Plan) -> set[tuple[str, str]]:
    return {(role.id, role.version.partition(".")[0]) for role in made.roles if role.kind != "mount"}


@settings(max_examples=examples(20, in_a_soak=60), deadline=None)
@given(dataset=datasets, runtime=runtimes, order=st.randoms(use_true_random=False))
def test_order_in_which_facts_are_told_does_not_matter(dataset: Any, runtime: Any, order: Any) -> None:
    world = world_of(dataset, runtime)
    look_often(world, 4)
    made = world.plan()
    nodes, roles = list(world.seen.nodes), list(world.seen.roles)
    order.shuffle(nodes)
    order.shuffle(roles)
    world.see(nodes=tuple(nodes), roles=tuple(roles))
    again = world.plan()
    assert dataclasses.replace(again, steps=made.steps) == made
    assert {name: set(getattr(again.steps, name)) for name in ("start", "replace", "drain", "stop")} == {
        name: set(getattr(made.steps, name)) for name in ("start", "replace", "drain", "stop")
    }


CHAOS: dict[str, Callable[[World, Any], None]] = {
    "kill": lambda world, draw: _set_any(world, draw, RoleState.FAILED),
    "revive": lambda world, draw: _set_any(world, draw, RoleState.STARTING),
    "lose": lambda world, draw: world.see(roles=world.seen.roles[1:]),
    "scale": lambda world, draw: setattr(
        world, "runtime", changed(world.runtime, replicas=draw(st.integers(0, 5)))
    ),
    "rotate": lambda world, draw: world.see(
        secrets={
            "mysecret": mysecret(secret=draw(st.sampled_from("abc")), other=draw(st.sampled_from("abc")))
        }
    ),
    "forget": lambda world, draw: world.see(secrets={}),
    "remember": lambda world, draw: world.see(secrets={"mysecret": MYSECRET}),
    "mounts": lambda world, draw: setattr(
        world,
        "dataset",
        changed(
            world.dataset,
            mounts=draw(
                st.lists(
                    st.sampled_from(MOUNTS), min_size=1, max_size=3, unique_by=lambda mount: mount["name"]
                )
            ),
        ),
    ),
    "use": lambda world, draw: world.use(
        ("pod default/x", draw(st.sampled_from([node.name for node in world.seen.nodes])))
    ),
    "leave": lambda world, draw: world.use(),
    "crowd": lambda world, draw: world.see(
        others={draw(st.sampled_from(["node-1", "node-2"])): (OtherWorker("a/b", is_exclusive=True),)}
    ),
    "calm": lambda world, draw: world.see(others={}),
    "fewer": lambda world, draw: world.see(nodes=gpu_nodes(draw(st.integers(1, 4)))),
    "unreachable": lambda world, draw: setattr(
        world, "data", dataclasses.replace(world.data, fault_kind="Unreachable", fault_message="no route")
    ),
    "reachable": lambda world, draw: setattr(
        world, "data", dataclasses.replace(world.data, fault_kind="", fault_message="")
    ),
    "wait": lambda world, draw: setattr(
        world, "now", world.now + timedelta(seconds=draw(st.integers(1, 2000)))
    ),
}


def _set_any(world: World, draw: Any, state: RoleState) -> None:
    if world.seen.roles:
        world.set_state(draw(st.sampled_from(sorted(facts.id for facts in world.seen.roles))), state)


@settings(max_examples=examples(25, in_a_soak=80), deadline=None)
@given(data=st.data())
def test_whatever_happens_plans_keep_their_promises(data: st.DataObject) -> None:
    world = world_of(changed(DATASET, mounts=[OSS]), RUNTIME)
    for _ in range(data.draw(st.integers(1, 25))):
        CHAOS[data.draw(st.sampled_from(sorted(CHAOS)))](world, data.draw)
        check(world, world.plan())
        world.reconcile()


def check(world: World, made: Plan) -> None:
    """What must hold of any plan."""
    running = {facts.id: facts for facts in world.seen.roles if facts.state is not RoleState.ENDED}
    planned = {role.id: role for role in made.roles}
    assert len(planned) == len(made.roles)
    assert set(made.steps.start) <= set(planned)
    assert not set(made.steps.start) & set(running)
    assert set(made.steps.replace) <= set(planned) & set(running)
    assert not (set(made.steps.drain) | set(made.steps.stop)) & (
        set(made.steps.start) | set(made.steps.replace)
    )
    if made.holds:
        assert not made.roles
        assert not made.steps
    used = {use.node for use in world.seen.users}
    stopped = [running[role] for role in made.steps.stop if role in running]
    assert not any(facts.role == "mount" and facts.node in used for facts in stopped)
    workers = [role for role in made.roles if role.kind == "worker"]
    assert len({role.node for role in workers}) == len(workers)
    _check_status(world, made)


def _check_status(world: World, made: Plan) -> None:
    status = made.dataset_status
    assert status is not None
    ready = condition_of(status.conditions, "Ready")
    assert ready is not None
    serving = [
        facts
        for facts in world.seen.roles
        if facts.role == "worker" and facts.state in {RoleState.READY, RoleState.DRAINING}
    ]
    if not serving:
        assert ready.status == "False"
    types = {condition.type for condition in status.conditions}
    assert len(types) == len(status.conditions)
    assert types <= set(DATASET_CONDITIONS), "a condition that the reference does not explain"
    if made.runtime_status is not None:
        assert {condition.type for condition in made.runtime_status.conditions} <= set(RUNTIME_CONDITIONS)
    if ready.status == "True":
        assert status.phase in {"Bound", "Updating"}
        assert made.volume is not None
    assert made.requeue_after_s > 0
