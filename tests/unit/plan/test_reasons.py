"""Each wait has one reason, with a sentence that names what it is about; and it ends when its cause does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta

import pytest
from planned import GPU, MYSECRET, SEED, START, World, changed, gpu_nodes, leaving, objects

from headrace.api.conditions import DatasetCondition
from headrace.api.dataset import Dataset, DatasetPhase, DatasetSpec
from headrace.plan.condition_times import condition_of
from headrace.plan.dataset_events import EventType
from headrace.plan.declared import chosen_runtime
from headrace.plan.observed import (
    ClaimFacts,
    ClaimState,
    ConsumerFacts,
    Node,
    OtherWorker,
    RoleState,
    SecretFacts,
    Taint,
)
from headrace.plan.plan import plan_spare
from headrace.plan.reasons import MEANINGS, Reason

Prepare = Callable[[World], None]


def mounts(*entries: dict[str, object]) -> Prepare:
    """Other mounts."""
    return lambda world: setattr(world, "dataset", changed(world.dataset, mounts=list(entries)))


def runtime(**spec: object) -> Prepare:
    """Another runtime."""
    return lambda world: setattr(world, "runtime", changed(world.runtime, **spec))


def see(**facts: object) -> Prepare:
    """Another world."""
    return lambda world: world.see(**facts)


def breaks(role_id: str, kind: str, message: str) -> Prepare:
    """A role that fails at its start."""
    return lambda world: world.broken.update({role_id: (kind, message)})


def empty() -> Dataset:
    """A dataset without mounts."""
    dataset: Dataset = objects(SEED)[0]
    return dataset.model_copy(update={"spec": DatasetSpec()})


def fails_to_list(kind: str) -> Prepare:
    """A master that cannot list."""

    def prepare(world: World) -> None:
        world.data = dataclasses.replace(
            world.data, snapshot_version=0, fault_kind=kind, fault_message=f"cannot list oss://bucket: {kind}"
        )

    return prepare


def no_listing_yet(world: World) -> None:
    world.data = dataclasses.replace(world.data, snapshot_version=0)


def all_workers_fail(kind: str = "Unexpected") -> Prepare:
    def prepare(world: World) -> None:
        world.broken.update({f"worker-{index}": (kind, "no luck") for index in range(4)})

    return prepare


def all_mounts_fail(world: World) -> None:
    world.broken.update(
        {f"mount-node-{number}": ("PermissionDenied", "fusermount3 is missing") for number in range(1, 5)}
    )


OSS = {"mountPoint": "oss://bucket", "name": "a", "options": {"fs.oss.endpoint": "oss.example"}}
TWO_KEYS = [
    {"name": name, "valueFrom": {"secretKeyRef": {"name": "mysecret", "key": name}}}
    for name in ("fs.oss.accessKeyId", "fs.oss.accessKeySecret")
]


def name_folder(world: World, *opened: str) -> None:
    """The dataset names a folder of the nodes, of which these are opened."""
    mounts({"mountPoint": "local:///mnt/test1", "name": "a"})(world)
    world.see(open_folders=opened)


NOT_READY: list[tuple[Reason, str, Prepare]] = [
    (Reason.RUNTIME_MISSING, "default/imagenet", lambda world: setattr(world, "runtime", None)),
    (Reason.MOUNTS_MISSING, "default/imagenet", lambda world: setattr(world, "dataset", empty())),
    (Reason.MOUNTS_OVERLAP, "top", mounts({**OSS, "path": "/"}, {**OSS, "name": "b"})),
    (Reason.SCHEME_NOT_SUPPORTED, "juicefs", mounts({"mountPoint": "juicefs://volume", "name": "a"})),
    (Reason.ADDRESS_REFUSED, "a of dataset", mounts({"mountPoint": "http://me:pass@host/x", "name": "a"})),
    (Reason.FOLDER_NOT_OPEN, "folder /mnt/test1 of the nodes", lambda world: name_folder(world, "/mnt/test")),
    (Reason.OPTION_MISSING, "fs.oss.endpoint", mounts({"mountPoint": "oss://bucket", "name": "a"})),
    (Reason.OPTION_MISSING, "fs.oss.accessKeySecret", mounts({**OSS, "encryptOptions": TWO_KEYS[:1]})),
    (Reason.OPTION_REFUSED, "no such", breaks("master", "Config", "no such region")),
    (
        Reason.DATASET_REFERENCE_MISSING,
        "default/other",
        mounts({"mountPoint": "dataset://default/other", "name": "a"}),
    ),
    (Reason.DATASET_REFERENCE_REFUSED, "team/other", lambda world: refer(world, "team/other")),
    (Reason.SECRET_MISSING, "mysecret", see(secrets={})),
    (
        Reason.SECRET_KEY_MISSING,
        "fs.oss.accessKeySecret",
        see(secrets={"mysecret": SecretFacts({"fs.oss.accessKeyId": "d"})}),
    ),
    (Reason.CLAIM_MISSING, "claim data", mounts({"mountPoint": "pvc://data", "name": "a"})),
    (Reason.CLAIM_PENDING, "no volume fits", lambda world: claim(world, ClaimState.PENDING)),
    (
        Reason.QUOTA_MISSING,
        "levels[0]",
        runtime(tieredstore={"levels": [{"mediumtype": "SSD", "path": "/ssd"}]}),
    ),
    (Reason.NO_NODE_MATCHES, "4 of 4", see(nodes=(Node("node-1"), Node("node-2")))),
    (
        Reason.NODES_TAINTED,
        "node-1",
        see(nodes=tuple(Node(f"node-{n}", GPU, (Taint("gpu"),)) for n in range(1, 5))),
    ),
    (
        Reason.NODES_NOT_READY,
        "node-1",
        see(nodes=tuple(dataclasses.replace(n, is_ready=False) for n in gpu_nodes(4))),
    ),
    (
        Reason.NODES_TAKEN,
        "node-1",
        see(others={f"node-{n}": (OtherWorker("default/cifar", is_exclusive=True),) for n in range(1, 5)}),
    ),
    (Reason.WORKERS_DISABLED, "0 workers", runtime(replicas=0)),
    (Reason.MASTER_FAILED, "on fire", breaks("master", "Unexpected", "on fire")),
    (Reason.FILES_LISTING, "being listed", no_listing_yet),
    (Reason.BUCKET_UNREACHABLE, "oss://bucket", fails_to_list("Unreachable")),
    (Reason.ACCESS_DENIED, "oss://bucket", fails_to_list("PermissionDenied")),
    (Reason.ORIGIN_MISSING, "oss://bucket", fails_to_list("NotFound")),
    (Reason.WORKERS_FAILED, "no luck", all_workers_fail()),
    (Reason.QUOTA_LARGER_THAN_DISK, "no luck", all_workers_fail("NoSpace")),
]


def refer(world: World, key: str) -> None:
    """A mount that refers to another dataset, beside a runtime of its own."""
    mounts({"mountPoint": f"dataset://{key}", "name": "a"})(world)
    world.references[key] = objects(SEED)[0]


def claim(world: World, state: ClaimState) -> None:
    mounts({"mountPoint": "pvc://data", "name": "a"})(world)
    world.see(claims={"data": ClaimFacts(state, message="no volume fits it")})


@pytest.mark.parametrize(
    ("reason", "words", "prepare"),
    NOT_READY,
    ids=lambda value: value.value if isinstance(value, Reason) else "",
)
def test_what_keeps_a_dataset_from_being_ready_is_said(reason: Reason, words: str, prepare: Prepare) -> None:
    world = World.of()
    prepare(world)
    made = [world.reconcile() for _ in range(8)][-1]
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", reason)
    assert ready.message is not None
    assert words in ready.message
    assert MEANINGS[reason].action in ready.message
    assert made.dataset_status.phase in {DatasetPhase.NOT_BOUND, DatasetPhase.FAILED}
    assert made.volume is None


@pytest.mark.parametrize(
    ("reason", "prepare"),
    [(reason, prepare) for reason, _, prepare in NOT_READY],
    ids=lambda value: getattr(value, "value", ""),
)
def test_a_dataset_is_bound_once_its_cause_is_gone(reason: Reason, prepare: Prepare) -> None:
    world, sound = World.of(), World.of()
    prepare(world)
    for _ in range(4):
        world.reconcile()
    world.dataset = sound.dataset.model_copy(update={"status": world.dataset.status})
    world.runtime = sound.runtime.model_copy(
        update={"status": world.runtime.status if world.runtime else None}
    )
    world.seen = dataclasses.replace(sound.seen, roles=world.seen.roles)
    world.data, world.broken = sound.data, {}
    for facts in world.seen.roles:
        if facts.state is RoleState.FAILED:
            world.set_state(facts.id, RoleState.STARTING)
    made = world.settle()
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.BOUND, reason


def test_dataset_that_no_node_can_mount_is_not_ready() -> None:
    world = World.of()
    all_mounts_fail(world)
    made = [world.reconcile() for _ in range(8)][-1]
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", Reason.MOUNT_REFUSED)
    assert "fusermount3 is missing" in (ready.message or "")
    world.now += timedelta(seconds=121)
    made = world.reconcile()
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.FAILED


def test_wait_past_its_deadline_is_a_failure_and_still_recovers() -> None:
    world = World.of()
    world.see(secrets={})
    world.reconcile()
    world.now += timedelta(seconds=601)
    made = world.reconcile()
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.FAILED
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert "longer than 10m0s" in (ready.message or "")
    world.see(secrets={"mysecret": MYSECRET})
    made = world.settle()
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.BOUND


def test_next_look_is_no_later_than_the_deadline() -> None:
    world = World.of()
    world.see(secrets={})
    world.reconcile()
    world.now += timedelta(seconds=590)
    assert world.plan().requeue_after_s <= 10


def test_a_wait_for_a_person_who_may_take_her_time_never_fails() -> None:
    world = World.of()
    world.runtime = None
    world.reconcile()
    world.now += timedelta(days=30)
    made = world.reconcile()
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.NOT_BOUND


def test_runtime_without_dataset_says_so() -> None:
    world = World.of()
    world.dataset = None
    made = world.reconcile()
    assert made.dataset_status is None
    assert made.runtime_status is not None
    assert (made.runtime_status.worker_reason or "").startswith("DatasetMissing: ")
    assert not made.roles


def test_second_runtime_of_a_dataset_runs_nothing_and_says_why() -> None:
    world = World.of()
    alluxio = objects(SEED.replace("JindoRuntime", "AlluxioRuntime"))[1]
    earlier = alluxio.model_copy(
        update={
            "metadata": alluxio.metadata.model_copy(update={"creation_timestamp": START - timedelta(hours=1)})
        }
    )
    assert chosen_runtime(world.dataset, [world.runtime, earlier]) is earlier
    world.settle()
    assert chosen_runtime(world.dataset, [world.runtime, earlier]) is world.runtime, (
        "what is bound stays bound"
    )
    made = plan_spare(earlier, world.runtime, START)
    assert not made.roles
    assert made.runtime_status is not None
    assert (made.runtime_status.worker_reason or "").startswith("DatasetTaken: dataset default/imagenet")


DEGRADED: list[tuple[Reason, str, Prepare]] = [
    (Reason.SECRET_MISSING, "mysecret", see(secrets={})),
    (Reason.MASTER_FAILED, "killed", lambda world: world.set_state("master", RoleState.FAILED, "", "killed")),
    (
        Reason.ACCESS_DENIED,
        "oss://bucket",
        lambda world: setattr(
            world,
            "data",
            dataclasses.replace(
                world.data, fault_kind="PermissionDenied", fault_message="cannot list oss://bucket"
            ),
        ),
    ),
    (Reason.NO_NODE_MATCHES, "2 of 6", runtime(replicas=6)),
    (
        Reason.WORKERS_FAILED,
        "1 of 4",
        lambda world: world.set_state("worker-2", RoleState.FAILED, "", "killed"),
    ),
    (
        Reason.MOUNT_REFUSED,
        "node-3",
        lambda world: world.set_state("mount-node-3", RoleState.FAILED, "", "killed"),
    ),
    (Reason.MOUNT_NOT_ALLOWED, "node-9", lambda world: world.use(("pod default/x", "node-9"))),
]


@pytest.mark.parametrize(
    ("reason", "words", "prepare"),
    DEGRADED,
    ids=lambda value: value.value if isinstance(value, Reason) else "",
)
def test_what_is_wrong_with_a_dataset_that_can_be_read_is_said_beside(
    reason: Reason, words: str, prepare: Prepare
) -> None:
    world = World.of()
    world.settle()
    prepare(world)
    made = world.reconcile()
    assert made.dataset_status is not None
    degraded = condition_of(made.dataset_status.conditions, "Degraded")
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert degraded is not None
    assert ready is not None
    assert (degraded.status, degraded.reason, ready.status) == ("True", reason, "True")
    assert words in (degraded.message or "")
    assert [event.type for event in made.events if event.kind == "Dataset"] == [EventType.WARNING]
    assert made.dataset_status.phase is DatasetPhase.BOUND


def test_dataset_whose_workers_are_all_gone_is_failed_at_once() -> None:
    world = World.of()
    world.settle()
    for index in range(4):
        world.set_state(f"worker-{index}", RoleState.FAILED, "", "killed")
    made = world.reconcile()
    assert made.dataset_status is not None
    assert made.runtime_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", Reason.WORKERS_GONE)
    assert made.dataset_status.phase is DatasetPhase.FAILED
    assert made.runtime_status.worker_phase == "NotReady"
    assert made.volume is not None, "programs still have the volume"


def test_deletion_while_in_use_is_refused_and_says_by_whom() -> None:
    world = World.of()
    world.settle()
    world.use(("process 123 (python) on node-1", "node-1"))
    world.dataset = leaving(world.dataset)
    made = world.reconcile()
    assert made.dataset_status is not None
    terminating = condition_of(made.dataset_status.conditions, "Terminating")
    assert terminating is not None
    assert terminating.reason == Reason.VOLUME_IN_USE
    assert "process 123 (python) on node-1" in (terminating.message or "")
    assert not made.steps
    assert made.finalizers.dataset
    assert made.dataset_status.phase is DatasetPhase.TERMINATING
    assert made.volume is not None and made.closes, "who uses it keeps it, and nobody else gets it"
    world.see(users=())
    while world.reconcile().steps:
        made = world.reconcile()
        assert made.dataset_status is not None
        assert made.dataset_status.phase is DatasetPhase.TERMINATING


def test_deletion_while_referred_to_is_refused() -> None:
    world = World.of()
    world.settle()
    world.see(referrers=("team/mirror",))
    world.dataset = leaving(world.dataset)
    made = world.reconcile()
    assert made.dataset_status is not None
    terminating = condition_of(made.dataset_status.conditions, "Terminating")
    assert terminating is not None
    assert terminating.reason == Reason.DATASET_REFERRED
    assert made.dataset_status.dataset_ref == ("team/mirror",)


def test_master_that_does_not_get_ready_is_waited_for_two_minutes() -> None:
    world = World.of()
    world.reconcile()
    world.set_state("master", RoleState.STARTING)
    made = world.reconcile(seconds=0)
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == Reason.MASTER_STARTING


TAKEN = {f"node-{n}": (OtherWorker("default/cifar", is_exclusive=True),) for n in range(1, 5)}


def test_a_master_that_ends_again_and_again_is_told_before_what_may_pass_by_itself() -> None:
    world = World.of()
    world.see(others=TAKEN)
    world.reconcile()
    assert ready(world).reason == Reason.NODES_TAKEN
    # That it starts once more is no news.
    for state in (RoleState.FAILED, RoleState.STARTING):
        world.set_state("master", state, message="the state folder is read-only")
        said = ready(world)
        assert said.reason == Reason.MASTER_FAILED
        assert "failed: the state folder is read-only: look at its log" in (said.message or "")
    world.set_state("master", RoleState.STARTING)
    assert ready(world).reason == Reason.NODES_TAKEN


@pytest.mark.parametrize("state", [RoleState.FAILED, RoleState.STARTING])
def test_workers_and_mounts_that_end_again_and_again_say_why_also_while_they_start_once_more(
    state: RoleState,
) -> None:
    world = World.of()
    for _ in range(2):
        world.reconcile()
    for index in range(4):
        world.set_state(f"worker-{index}", state, message="the cache folder is read-only")
    said = ready(world)
    assert said.reason == Reason.WORKERS_FAILED
    assert "worker-0 on node-1 failed: the cache folder is read-only: look at" in (said.message or "")
    for index in range(4):
        world.set_state(f"worker-{index}", RoleState.READY)
    world.settle()
    for number in range(1, 5):
        world.set_state(f"mount-node-{number}", state, message="fusermount3 is missing")
    said = ready(world)
    assert said.reason == Reason.MOUNT_REFUSED
    assert "fusermount3 is missing" in (said.message or "")


@pytest.mark.parametrize("state", [RoleState.FAILED, RoleState.STARTING])
def test_a_dataset_whose_workers_all_end_again_and_again_says_why(state: RoleState) -> None:
    world = World.of()
    world.settle()
    for index in range(4):
        world.set_state(f"worker-{index}", state, message="the cache folder is read-only" if index else "")
    world.set_state("worker-0", RoleState.ENDED)
    said = ready(world)
    assert said.reason == Reason.WORKERS_GONE
    assert "worker-1 on node-2 failed: the cache folder is read-only: bring" in (said.message or "")


def test_a_node_that_cannot_mount_is_told_before_nodes_that_others_have() -> None:
    world = World.of()
    world.settle()
    world.runtime = changed(world.runtime, replicas=5)
    world.see(nodes=gpu_nodes(5), others={"node-5": TAKEN["node-1"]})
    assert degraded(world).reason == Reason.NODES_TAKEN
    world.set_state("mount-node-3", RoleState.FAILED, message="fusermount3 is missing")
    assert degraded(world).reason == Reason.MOUNT_REFUSED


def test_refused_keys_are_told_before_nodes_that_others_have() -> None:
    world = World.of()
    world.see(others=TAKEN)
    fails_to_list("PermissionDenied")(world)
    for _ in range(4):
        world.reconcile()
    assert ready(world).reason == Reason.ACCESS_DENIED


def ready(world: World) -> DatasetCondition:
    return said_of(world, "Ready")


def degraded(world: World) -> DatasetCondition:
    return said_of(world, "Degraded")


def said_of(world: World, kind: str) -> DatasetCondition:
    made = world.reconcile(seconds=0)
    assert made.dataset_status is not None
    said = condition_of(made.dataset_status.conditions, kind)
    assert said is not None
    return said


def test_users_of_one_volume_are_named_once_each() -> None:
    world = World.of()
    world.settle()
    world.see(users=tuple(ConsumerFacts("pod default/train", f"node-{n}") for n in range(1, 5)))
    world.dataset = leaving(world.dataset)
    made = world.reconcile()
    assert made.dataset_status is not None
    terminating = condition_of(made.dataset_status.conditions, "Terminating")
    assert terminating is not None
    assert (terminating.message or "").count("pod default/train") == 1


def test_a_wait_for_a_declaration_is_left_alone_until_its_deadline_and_longer_looks_after() -> None:
    world = World.of()
    world.see(secrets={})
    world.reconcile()
    first = world.plan()
    assert first.dataset_status is not None
    assert first.requeue_after_s == 599.0
    world.now += timedelta(hours=1)
    assert world.reconcile().requeue_after_s == 1800.0


def test_a_dataset_that_runs_is_looked_at_often_whatever_it_waits_for() -> None:
    world = World.of()
    world.settle()
    world.see(secrets={})
    assert world.plan().requeue_after_s <= 30


def test_workers_that_no_node_fits_any_more_are_gone_for_a_reason() -> None:
    world = World.of()
    world.settle()
    world.see(nodes=(Node("node-1"), Node("node-2")))
    made = world.settle()
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == Reason.WORKERS_GONE
    assert "4 of 4 workers have no node, too few nodes match" in (ready.message or "")
