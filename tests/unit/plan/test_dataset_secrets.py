"""A dataset whose Secrets change: who is started again, in which order, and that nothing of them is told."""

from __future__ import annotations

import dataclasses

from planned import MYSECRET, SEED, World, bound, changed, mysecret, phases

from headrace.plan.condition_times import condition_of
from headrace.plan.observed import RoleState, SecretFacts


def test_changed_secret_replaces_one_worker_after_the_other() -> None:
    world = bound()
    world.see(secrets={"mysecret": mysecret(secret="s2")})
    world.settle()
    replaced = [plan.steps.replace for plan in world.plans if plan.steps.replace]
    assert replaced == [("master",), *((f"worker-{index}",) for index in range(4))]
    assert phases(world.plans) == ["Bound"]
    ready = [
        condition_of(plan.dataset_status.conditions, "Ready") for plan in world.plans if plan.dataset_status
    ]
    assert {condition.status for condition in ready if condition} == {"True"}


def test_worker_that_does_not_come_back_stops_the_replacing() -> None:
    world = bound()
    world.broken["worker-0"] = ("PermissionDenied", "refused")
    world.see(secrets={"mysecret": mysecret(secret="s2")})
    for _ in range(10):
        world.reconcile()
    replaced = [each for plan in world.plans for each in plan.steps.replace]
    assert replaced == ["master", "worker-0"]


def test_keys_that_the_storage_refuses_stay_with_the_master() -> None:
    world = bound()
    before = dict(world.workers())
    world.see(secrets={"mysecret": SecretFacts(dict.fromkeys(MYSECRET.digests, "wrong"))})
    data = world.data
    world.data = dataclasses.replace(data, is_listing=True)
    world.settle()
    assert {each for made in world.plans for each in made.steps.replace} == {"master"}
    world.data = dataclasses.replace(data, fault_kind="PermissionDenied", fault_message="403")
    made = world.settle()
    assert world.workers() == before
    assert made.dataset_status is not None
    degraded = condition_of(made.dataset_status.conditions, "Degraded")
    assert degraded is not None
    assert (degraded.status, degraded.reason) == ("True", "AccessDenied")

    world.plans.clear()
    world.data = data
    world.see(secrets={"mysecret": SecretFacts(dict.fromkeys(MYSECRET.digests, "right"))})
    world.settle()
    replaced = [each for made in world.plans for each in made.steps.replace]
    assert replaced == ["master", "worker-0", "worker-1", "worker-2", "worker-3"]


def test_keys_in_clear_are_kept_out_of_settings_status_and_every_text() -> None:
    text = SEED.replace(
        "options: {fs.oss.endpoint: oss-cn-shanghai.aliyuncs.com}",
        "options: {fs.oss.endpoint: oss.example, fs.oss.securityToken: hunter2, fs.oss.accessKeyId: '@/etc/shadow'}",
    )
    world = World.of(text)
    made = world.settle()
    shown = list(world.plans)
    assert "hunter2" not in repr(shown)
    assert "hunter2" not in str([plan.dataset_status for plan in shown])
    assert "/etc/shadow" not in repr([role.settings.model_dump() for role in made.roles])
    before = {role.id: role.version for role in made.roles}
    world.dataset = changed(world.dataset, accessModes=["ReadOnlyMany"])
    after = {role.id: role.version for role in world.plan().roles}
    assert before["master"] != after["master"], (
        "a Dataset with keys in clear may have another key in any generation"
    )


def test_keys_of_a_secret_that_nobody_uses_change_nothing() -> None:
    world = bound()
    for facts in (
        mysecret(other="x"),
        mysecret(other="y"),
        SecretFacts(dict(reversed(MYSECRET.digests.items()))),
    ):
        world.see(secrets={"mysecret": facts})
        assert not world.reconcile().steps


def test_either_key_of_a_secret_that_is_used_replaces_roles() -> None:
    for change in ({"id": "i2"}, {"secret": "s2"}):
        world = bound()
        world.see(secrets={"mysecret": mysecret(**change)})
        assert world.reconcile().steps.replace == ("master",)


def test_secret_that_is_not_named_changes_nothing() -> None:
    world = bound()
    world.see(secrets={**world.seen.secrets, "other": SecretFacts({"a": "x"})})
    assert not world.reconcile().steps


def test_worker_on_a_machine_that_is_away_does_not_keep_others_from_new_secrets() -> None:
    world = bound()
    world.broken["worker-1"] = ("", "no route to host")
    world.set_state("worker-1", RoleState.FAILED)
    world.see(
        nodes=tuple(dataclasses.replace(node, is_ready=node.name != "node-2") for node in world.seen.nodes),
        secrets={"mysecret": mysecret(secret="s2")},
    )
    for _ in range(14):
        world.reconcile()
    versions = {role.id: role.version for role in world.plans[-1].roles}
    assert all(facts.version == versions[facts.id] for facts in world.seen.roles)
