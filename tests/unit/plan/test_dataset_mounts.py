"""The mounts of a dataset: where they are, when they go, and how they get another version under readers."""

from __future__ import annotations

from planned import SEED, World, bound, changed

from headrace.plan.observed import RoleState


def test_mount_starts_where_somebody_uses_the_dataset_and_stays() -> None:
    world = bound(SEED.replace("replicas: 4", "replicas: 1"))
    world.use(("process 1 (sh)", "node-4"))
    assert world.reconcile().steps.start == ("mount-node-4",)
    world.use()
    made = world.settle()
    assert "mount-node-4" in {role.id for role in made.roles}


def test_mount_on_demand_goes_with_its_last_user() -> None:
    text = SEED.replace("  replicas: 4", "  replicas: 4\n  fuse: {cleanPolicy: OnDemand}")
    world = bound(text)
    assert not [facts for facts in world.seen.roles if facts.role == "mount"]
    world.use(("process 1 (sh)", "node-4"))
    world.settle()
    assert world.facts("mount-node-4").state is RoleState.READY
    world.use()
    world.settle()
    assert not [facts for facts in world.seen.roles if facts.role == "mount"]


def test_mount_in_use_stays_when_the_runtime_excludes_its_node_until_it_is_left() -> None:
    world = bound()
    world.use(("process 1 (sh)", "node-4"))
    world.runtime = changed(world.runtime, fuse={"nodeSelector": {"none": "such"}})
    made = world.settle()
    assert [facts.id for facts in world.seen.roles if facts.role == "mount"] == ["mount-node-4"]
    assert [role.id for role in made.roles if role.kind == "mount"] == ["mount-node-4"]
    world.use()
    world.settle()
    assert not [facts for facts in world.seen.roles if facts.role == "mount"]


def old_mounts(*used: str, keepers: tuple[str, ...]) -> World:
    """A dataset that is used on these nodes, with mounts of an earlier version everywhere."""
    world = bound()
    world.use(*((f"pod default/{node}", node) for node in used))
    world.settle()
    for facts in [facts for facts in world.seen.roles if facts.role == "mount"]:
        world._replace(facts.id, version=f"{facts.version}*")
    world.see(keepers=frozenset(keepers))
    world.plans.clear()
    return world


def test_mounts_that_outlive_their_process_are_replaced_under_readers_one_after_the_other() -> None:
    world = old_mounts("node-1", "node-3", keepers=("node-1", "node-2", "node-3", "node-4"))
    world.settle()
    replaced = [plan.steps.replace for plan in world.plans if plan.steps.replace]
    assert replaced == [("mount-node-2", "mount-node-4"), ("mount-node-1",), ("mount-node-3",)]
    assert not [facts for facts in world.seen.roles if facts.version.endswith("*")]


def test_a_used_mount_without_a_keeper_keeps_its_version_until_it_is_left() -> None:
    world = old_mounts("node-1", "node-3", keepers=("node-3",))
    world.settle()
    assert [facts.id for facts in world.seen.roles if facts.version.endswith("*")] == ["mount-node-1"]
    world.use()
    world.settle()
    assert not [facts for facts in world.seen.roles if facts.version.endswith("*")]


def test_used_mounts_wait_for_workers_of_the_new_version() -> None:
    world = old_mounts("node-1", keepers=("node-1",))
    world.broken["worker-2"] = ("", "does not start")
    world._replace("worker-2", version="0.0")
    for _ in range(8):
        world.reconcile()
    assert "mount-node-1" not in [each for plan in world.plans for each in plan.steps.replace]
    del world.broken["worker-2"]
    world.set_state("worker-2", RoleState.READY)
    world.settle()
    assert "mount-node-1" in [each for plan in world.plans for each in plan.steps.replace]


def test_a_mount_that_serves_is_not_replaced_before_the_master_of_the_new_version_runs() -> None:
    """What the master cannot run for, such as an image that is nowhere, would keep the next mount from serving, too."""
    world = old_mounts(keepers=())
    world.broken["master"] = ("NoImage", "image typo cannot be had")
    world._replace("master", version="0.0")
    world.set_state("mount-node-2", RoleState.FAILED)
    for _ in range(8):
        world.reconcile()
    replaced = {each for plan in world.plans for each in plan.steps.replace}
    assert replaced == {"master", "mount-node-2"}
    status = world.reconcile().dataset_status
    assert status is not None
    (told,) = (each.message for each in status.conditions if each.reason == "ImageNotPulled")
    assert "image typo cannot be had" in told
    del world.broken["master"]
    world.set_state("master", RoleState.READY)
    world.settle()
    assert not [facts for facts in world.seen.roles if facts.version.endswith("*")]


def test_a_used_mount_that_does_not_run_is_replaced_at_once() -> None:
    world = old_mounts("node-1", keepers=())
    world.set_state("mount-node-1", RoleState.FAILED, "", "its image is gone")
    world.reconcile()
    assert "mount-node-1" in world.reconcile().steps.replace
