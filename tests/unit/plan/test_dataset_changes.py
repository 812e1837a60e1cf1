"""A dataset that lives: scaled, changed, moved, taken down; a few steps at a time."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from planned import GPU, SEED, World, bound, changed, gpu_nodes, leaving, phases

from headrace.api.dataset import DatasetPhase
from headrace.plan.condition_times import condition_of
from headrace.plan.observed import Node, OtherWorker, RoleState, Room


def test_scale_out_adds_workers_and_leaves_the_others_alone() -> None:
    world = bound(SEED.replace("replicas: 4", "replicas: 2"))
    before = dict(world.workers())
    world.runtime = changed(world.runtime, replicas=4)
    made = world.settle()
    assert {each for plan in world.plans for each in plan.steps.replace + plan.steps.stop} == set()
    assert before.items() <= world.workers().items()
    assert sorted(world.workers()) == [f"worker-{index}" for index in range(4)]
    assert made.runtime_status is not None
    scaled = condition_of(made.runtime_status.conditions, "WorkersScaledOut")
    assert scaled is not None
    assert scaled.message == "Workers scaled out from 2 replicas to 4 replicas."
    assert (
        len([event for plan in world.plans for event in plan.events if event.reason == "WorkersScaledOut"])
        == 1
    )


def test_scale_in_takes_the_last_workers_after_they_handed_over() -> None:
    world = bound()
    world.runtime = changed(world.runtime, replicas=2)
    made = world.reconcile()
    assert made.steps.drain == ("worker-3", "worker-2")
    assert not made.steps.stop
    world.settle()
    assert sorted(world.workers()) == ["worker-0", "worker-1"]
    assert phases(world.plans) == ["Bound"]


def test_drain_that_does_not_end_is_given_up() -> None:
    world = bound()
    world.runtime = changed(world.runtime, replicas=3)
    world.reconcile()
    world.set_state("worker-3", RoleState.DRAINING)
    world.broken["worker-3"] = ("", "")
    assert not world.reconcile().steps
    world.now += timedelta(minutes=10)
    assert world.reconcile().steps.stop == ("worker-3",)


def test_each_change_is_told_once() -> None:
    world = bound()
    for replicas in (2, 4):
        world.runtime = changed(world.runtime, replicas=replicas)
        world.settle()
    told = [event.reason for plan in world.plans for event in plan.events]
    assert sorted(told) == ["WorkersReady", "WorkersReady", "WorkersScaledIn", "WorkersScaledOut"]


def test_what_was_wrong_with_a_dataset_that_goes_is_no_good_news() -> None:
    world = World.of()
    world.see(nodes=tuple(dataclasses.replace(n, disks={"/": Room("sda", 1)}) for n in gpu_nodes(4)))
    world.settle()
    world.set_state("worker-2", RoleState.FAILED, "", "killed")
    world.reconcile()
    before = len(world.plans)
    world.dataset, world.runtime = leaving(world.dataset), leaving(world.runtime)
    for _ in range(8):
        world.reconcile()
    assert [event for plan in world.plans[before:] for event in plan.events if event.kind == "Dataset"] == []


def test_last_worker_has_nobody_to_hand_over_to() -> None:
    world = bound(SEED.replace("replicas: 4", "replicas: 1"))
    world.runtime = changed(world.runtime, replicas=0)
    made = world.reconcile()
    assert made.steps.stop == ("worker-0",)
    assert not made.steps.drain


def test_another_quota_replaces_workers_and_no_master() -> None:
    world = bound()
    tiers = {"levels": [{"mediumtype": "SSD", "path": "/var/lib/docker/jindo", "quota": "200G"}]}
    world.runtime = changed(world.runtime, tieredstore=tiers)
    made = world.settle()
    replaced = [each for plan in world.plans for each in plan.steps.replace]
    assert replaced == [f"worker-{index}" for index in range(4)]
    assert made.dataset_status is not None
    assert made.dataset_status.cache_states["cacheCapacity"] == "720.00GiB"


def test_change_of_mounts_goes_through_updating_and_ends_ready() -> None:
    world = bound()
    mounts = [
        {"mountPoint": "s3://corpus/text", "name": "text", "options": {"aws.region": "eu-west-1"}},
        *world.dataset.model_dump(by_alias=True, exclude_unset=True, mode="json")["spec"]["mounts"],
    ]
    world.dataset = changed(world.dataset, mounts=mounts)
    made = world.settle()
    assert phases(world.plans) == ["Updating", "Bound"]
    assert [plan.steps.replace for plan in world.plans if plan.steps.replace] == [
        ("master",),
        ("worker-0", "worker-1", "worker-2", "worker-3"),
    ]
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    updating = condition_of(made.dataset_status.conditions, "Updating")
    assert ready is not None
    assert updating is not None
    assert (ready.status, updating.status) == ("True", "False")
    assert [mount.tree_path for mount in made.dataset_status.mounts] == ["/text", "/imagenet"]


def test_change_to_mounts_that_cannot_be_listed_is_no_ready_dataset() -> None:
    world = bound()
    mounts = [{"mountPoint": "s3://nowhere", "name": "text", "options": {"aws.region": "eu-west-1"}}]
    world.dataset = changed(world.dataset, mounts=mounts)
    world.data = dataclasses.replace(
        world.data, snapshot_version=0, fault_kind="NotFound", fault_message="there is no bucket nowhere"
    )
    made = [world.reconcile() for _ in range(10)][-1]
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "OriginMissing")
    assert made.dataset_status.phase is DatasetPhase.UPDATING


def test_declarations_that_cannot_be_followed_leave_what_runs_alone() -> None:
    world = bound()
    sound = world.dataset
    world.dataset = changed(world.dataset, mounts=[{"mountPoint": "juicefs://volume", "name": "a"}])
    made = world.reconcile()
    assert made.holds
    assert not made.steps
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.BOUND
    assert made.dataset_status.mounts == sound.status.mounts
    assert made.runtime_status is not None
    assert made.runtime_status.worker_phase == "Ready"


def test_what_runs_stays_where_it_is_when_nodes_come_first_in_the_alphabet() -> None:
    world = bound(SEED.replace("replicas: 4", "replicas: 2"))
    before = dict(world.workers())
    world.see(nodes=(Node("a-node", GPU), *world.seen.nodes))
    made = world.settle()
    assert dict(world.workers()) == before
    assert not made.steps


def test_worker_of_a_node_that_is_gone_moves() -> None:
    world = bound(SEED.replace("replicas: 4", "replicas: 3"))
    world.see(nodes=tuple(node for node in world.seen.nodes if node.name != "node-2"))
    world.settle()
    assert dict(world.workers()) == {"worker-0": "node-1", "worker-1": "node-4", "worker-2": "node-3"}


def test_exclusive_dataset_keeps_off_nodes_of_others_and_shared_ones_do_not() -> None:
    others = {"node-1": (OtherWorker("default/cifar", is_exclusive=False),)}
    exclusive = World.of(SEED.replace("replicas: 4", "replicas: 1"))
    exclusive.see(others=others)
    exclusive.settle()
    assert dict(exclusive.workers()) == {"worker-0": "node-2"}
    shared = World.of(
        SEED.replace("replicas: 4", "replicas: 4").replace(
            "spec:\n  mounts", "spec:\n  placement: Shared\n  mounts", 1
        )
    )
    shared.see(others=others)
    shared.settle()
    assert sorted(filter(None, shared.workers().values())) == ["node-1", "node-2", "node-3", "node-4"]


def test_deletion_goes_from_the_mounts_to_the_master_and_then_lets_go() -> None:
    world = bound()
    world.dataset, world.runtime = leaving(world.dataset), leaving(world.runtime)
    while world.seen.roles:
        made = world.reconcile()
        assert made.finalizers.dataset
        assert made.finalizers.runtime
    stops = [sorted({role.partition("-")[0] for role in plan.steps.stop}) for plan in world.plans]
    assert stops == [["mount"], ["worker"], ["master"]]
    made = world.reconcile()
    assert (made.finalizers.dataset, made.finalizers.runtime, made.volume, made.roles) == ((), (), None, ())


def test_deletion_goes_on_when_the_users_are_gone() -> None:
    world = bound()
    world.use(("pod default/train", "node-1"))
    world.dataset = leaving(world.dataset)
    assert not world.reconcile().steps
    world.use()
    assert world.reconcile().steps.stop


def test_runtime_of_a_dataset_in_use_is_not_deleted_and_says_why() -> None:
    world = bound()
    world.use(("pod default/train", "node-1"))
    world.runtime = leaving(world.runtime)
    made = world.reconcile()
    assert not made.steps
    assert made.finalizers.runtime
    assert made.runtime_status is not None
    terminating = condition_of(made.runtime_status.conditions, "Terminating")
    assert terminating is not None
    assert terminating.reason == "VolumeInUse"
    told = [(event.kind, event.reason) for event in made.events]
    assert told == [("Dataset", "VolumeInUse"), ("JindoRuntime", "VolumeInUse")]


def test_a_dataset_whose_runtime_waits_to_be_deleted_shows_why_nobody_may_begin_to_use_it() -> None:
    world = bound()
    world.use(("pod default/train", "node-1"))
    world.runtime = leaving(world.runtime)
    made = world.reconcile()
    assert made.closes
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.TERMINATING
    said = condition_of(made.dataset_status.conditions, "Terminating")
    assert said is not None
    assert said.status == "True"
    assert (said.message or "").startswith(
        "its JindoRuntime is being deleted, and the volume of default/imagenet is in use by pod default/train"
    )
    world.use()
    made = world.reconcile()
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.NOT_BOUND
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert ready.message == "the JindoRuntime of default/imagenet is being deleted: wait"


@pytest.mark.parametrize(
    ("why", "is_ready", "told"),
    [
        ("", True, "what it left on node-2 is being taken away: wait"),
        ("", False, "what it left on node-2 is being taken away; on node-2 the node is not ready: wait"),
        ("its container does not start: no", False, "; on node-2 its container does not start: no: wait"),
    ],
)
def test_a_deletion_that_waits_for_a_node_to_be_cleaned_says_so(why: str, is_ready: bool, told: str) -> None:
    world = bound()
    world.dataset, world.runtime = leaving(world.dataset), leaving(world.runtime)
    nodes = [dataclasses.replace(node, is_ready=is_ready) for node in gpu_nodes(4)]
    world.see(sweeping={"node-2": why}, nodes=tuple(nodes))
    assert "what it left" not in str(world.reconcile().dataset_status)
    world.see(roles=())
    made = world.reconcile()
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert (ready.reason, made.dataset_status.phase) == ("Deleting", DatasetPhase.TERMINATING)
    assert (ready.message or "").endswith(told)


def test_a_dataset_that_has_a_runtime_again_is_no_longer_terminating() -> None:
    """Also where somebody took the finalizer of the one before away."""
    world = bound()
    world.use(("pod default/train", "node-1"))
    before, world.runtime = world.runtime, leaving(world.runtime)
    world.reconcile()
    world.runtime = before.model_copy(update={"status": None})
    for index in range(4):
        world.set_state(f"worker-{index}", RoleState.STARTING)
    made = world.plan()
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.BOUND


def test_dataset_whose_runtime_is_deleted_is_not_bound_and_forgets_its_numbers() -> None:
    world = bound()
    world.runtime = leaving(world.runtime)
    while world.seen.roles:
        world.reconcile()
    world.reconcile()
    world.runtime = None
    made = world.reconcile()
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.NOT_BOUND
    assert made.dataset_status.ufs_total is None
    assert not made.dataset_status.cache_states
    assert not made.dataset_status.runtimes


def test_reads_go_on_and_the_dataset_stays_ready_without_its_master() -> None:
    world = bound()
    numbers = world.dataset.status.ufs_total
    world.set_state("master", RoleState.FAILED, "", "killed")
    made = world.reconcile()
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "True"
    assert made.dataset_status.ufs_total == numbers


def test_several_namespaces_have_volumes_of_their_own() -> None:
    volumes = set()
    for namespace, name in (("default", "a-b"), ("a", "b"), ("team", "a-b"), ("team-a", "b")):
        text = SEED.replace("namespace: default", f"namespace: {namespace}").replace(
            "{name: imagenet,", f"{{name: {name},"
        )
        made = World.of(text).settle()
        assert made.volume is not None
        volumes.add(made.volume.name)
    assert volumes == {"a-b", "b.a", "a-b.team", "b.team-a"}


def test_fields_without_effect_are_named() -> None:
    text = SEED.replace(
        "  replicas: 4", "  replicas: 4\n  jindoVersion: {image: jindo, imageTag: '1'}"
    ).replace("oss-cn-shanghai.aliyuncs.com}", "oss.example, metaPolicy: ONCE}")
    made = World.of(text).settle()
    assert made.dataset_status is not None
    assert made.runtime_status is not None
    of_dataset = condition_of(made.dataset_status.conditions, "FieldsIgnored")
    of_runtime = condition_of(made.runtime_status.conditions, "FieldsIgnored")
    assert of_dataset is not None
    assert of_runtime is not None
    assert "spec.mounts[0].options.metaPolicy" in (of_dataset.message or "")
    assert "spec.jindoVersion" in (of_runtime.message or "")


def test_master_goes_where_its_selector_says_and_waits_for_such_a_node() -> None:
    world = World.of(SEED.replace("  replicas: 4", "  replicas: 4\n  master: {nodeSelector: {disk: fast}}"))
    made = [world.reconcile() for _ in range(3)][-1]
    assert not world.seen.roles
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "NoNodeMatches"
    world.see(nodes=(*world.seen.nodes, Node("node-9", {"disk": "fast"})))
    world.settle()
    assert world.facts("master").node == "node-9"


def test_numbers_of_the_cache_are_those_of_all_copies_and_of_all_reads() -> None:
    text = SEED.replace("JindoRuntime", "AlluxioRuntime").replace(
        "  replicas: 4", "  replicas: 4\n  data: {replicas: 2}"
    )
    world = bound(text)
    world.data = dataclasses.replace(
        world.data, size_bytes=1000, cached_bytes=1000, read_bytes=1000, remote_bytes=375, fetched_bytes=200
    )
    status = world.reconcile().dataset_status
    assert status is not None
    shown = {key: value for key, value in status.cache_states.items() if key != "cacheCapacity"}
    assert shown == {
        "cached": "1000.00B",
        "cachedPercentage": "50.0%",
        "cacheHitRatio": "80.0%",
        "localHitRatio": "50.0%",
        "remoteHitRatio": "30.0%",
        "cacheThroughputRatio": "80.0%",
        "localThroughputRatio": "50.0%",
        "remoteThroughputRatio": "30.0%",
    }


def test_a_dataset_that_is_read_is_looked_at_more_often() -> None:
    world = bound()
    quiet = world.plan().requeue_after_s
    world.data = dataclasses.replace(world.data, read_bytes=1)
    assert world.plan().requeue_after_s < quiet / 4


def test_a_storage_that_does_not_answer_workers_is_told_while_the_rest_is_read() -> None:
    world = bound()
    data = world.data
    world.data = dataclasses.replace(data, unanswered=("worker-1", "worker-3"))
    status = world.settle().dataset_status
    assert status is not None
    degraded = condition_of(status.conditions, "Degraded")
    assert degraded is not None
    assert degraded.reason == "BucketUnreachable"
    assert "worker-1, worker-3" in degraded.message
    assert phases(world.plans) == ["Bound"]
    world.data = data
    status = world.settle().dataset_status
    assert status is not None
    degraded = condition_of(status.conditions, "Degraded")
    assert degraded is not None
    assert degraded.status == "False"


def test_other_patterns_replace_the_master_alone_which_lists_anew() -> None:
    world = bound()
    before = {facts.id: facts.version for facts in world.seen.roles}
    mount = world.dataset.spec.mounts[0]
    options = {**mount.options, "strict": "true"}
    told = mount.model_copy(update={"exclude": ("_temporary/", "*.tmp"), "options": options})
    world.dataset = changed(world.dataset, mounts=[told])
    made = world.reconcile()
    assert made.steps.replace == ("master",)
    assert made.dataset_status is not None
    assert [each.exclude for each in made.dataset_status.mounts] == [()], "until there is such a list"
    made = world.settle()
    assert made.dataset_status is not None
    assert [each.exclude for each in made.dataset_status.mounts] == [("_temporary/", "*.tmp")]
    (origin,) = next(role.settings.origins for role in made.roles if role.id == "master")
    assert (origin.exclude, origin.exclude_below) == (("_temporary/", "*.tmp"), None)
    assert {version for role, version in before.items() if role != "master"} == {
        facts.version for facts in world.seen.roles if facts.id != "master"
    }
    (origin,) = next(role.settings.origins for role in made.roles if role.id == "worker-0")
    assert (origin.exclude, "strict" in origin.options) == (None, False)
