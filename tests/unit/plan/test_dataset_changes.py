"""A dataset that lives: scaled, changed, given other secrets, taken down; a few steps at a time."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from planned import GPU, MYSECRET, SEED, World, changed, gpu_nodes, leaving, mysecret, objects

from headrace.api.dataset import DatasetPhase
from headrace.plan.conditions import condition_of
from headrace.plan.observed import Node, OtherWorker, RoleState, Room, SecretFacts
from headrace.plan.outcome import Plan


def phases(plans: list[Plan]) -> list[str]:
    """The phases in their order, each once."""
    seen = [str(made.dataset_status.phase) for made in plans if made.dataset_status]
    return [phase for number, phase in enumerate(seen) if number == 0 or seen[number - 1] != phase]


def bound(text: str = SEED, nodes: int = 4) -> World:
    world = World.of(text, gpu_nodes(nodes))
    world.settle()
    world.plans.clear()
    return world


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
    assert [(event.kind, event.reason) for event in made.events] == [("JindoRuntime", "VolumeInUse")]


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


REFERENCE = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: mirror, namespace: team}
spec:
  mounts: [{mountPoint: "dataset://default/imagenet/train", name: mirror}]
"""


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


def test_dataset_that_refers_to_another_is_read_through_its_cluster() -> None:
    other = bound()
    world = World.of(REFERENCE)
    world.see(secrets={})
    world.references["default/imagenet"] = other.dataset
    world.use(("pod team/train", "node-2"))
    made = world.settle()
    (mount,) = made.roles
    assert (mount.id, mount.cluster, mount.secrets) == ("mount-node-2", "default/imagenet", ())
    assert made.volume is not None
    assert (made.volume.cluster, made.volume.sub_path) == ("default/imagenet", "train")
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.BOUND
    assert made.dataset_status.ufs_total == "143.67GiB"


def test_dataset_that_refers_waits_for_the_other() -> None:
    world = World.of(REFERENCE)
    world.references["default/imagenet"] = objects(SEED)[0]
    made = world.reconcile()
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "DatasetReferenceNotReady"


def test_reference_beside_a_runtime_is_followed_to_the_origin() -> None:
    text = SEED.replace("metadata: {name: imagenet,", "metadata: {name: copy,").replace(
        "    - mountPoint: oss://bucket/imagenet\n      name: imagenet",
        "    - mountPoint: dataset://default/source/imagenet/train\n      name: copy",
    )
    world = World.of(text)
    world.references["default/source"] = objects(SEED.replace("{name: imagenet,", "{name: source,"))[0]
    made = world.settle()
    (origin,) = made.roles[0].settings.origins
    assert (origin.path, origin.origin) == ("copy", "oss://bucket/imagenet/train")


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


def test_mount_of_a_reference_that_somebody_uses_is_not_ended_when_its_node_is_unknown() -> None:
    world = World.of(REFERENCE)
    world.references["default/imagenet"] = bound().dataset
    world.use(("process 1 (sh)", "node-2"))
    world.settle()
    world.see(nodes=tuple(node for node in world.seen.nodes if node.name != "node-2"))
    for _ in range(5):
        assert "mount-node-2" not in world.reconcile().steps.stop


def test_numbers_of_the_cache_are_those_of_all_copies_and_of_all_reads() -> None:
    text = SEED.replace("JindoRuntime", "AlluxioRuntime").replace(
        "  replicas: 4", "  replicas: 4\n  data: {replicas: 2}"
    )
    world = bound(text)
    world.data = dataclasses.replace(
        world.data, size_bytes=1000, cached_bytes=1000, local_bytes=500, peer_bytes=300, origin_bytes=200
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
    world.data = dataclasses.replace(world.data, peer_bytes=1)
    assert world.plan().requeue_after_s < quiet / 4


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
