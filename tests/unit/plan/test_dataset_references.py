"""Datasets that refer to others."""

from __future__ import annotations

import pytest
from planned import SEED, World, bound, changed, objects

from headrace.api.dataset import Dataset, DatasetPhase
from headrace.plan.condition_times import condition_of
from headrace.plan.outcome import Plan

REFERENCE = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: mirror, namespace: team}
spec:
  mounts: [{mountPoint: "dataset://default/imagenet/train", name: mirror}]
"""


def referring(other: Dataset) -> World:
    """A dataset of namespace `team` that refers to this one."""
    world = World.of(REFERENCE)
    world.see(secrets={})
    world.references["default/imagenet"] = other
    return world


def said(made: Plan) -> tuple[str | None, str]:
    """Why the dataset is not ready."""
    assert made.dataset_status is not None
    ready = condition_of(made.dataset_status.conditions, "Ready")
    assert ready is not None
    return ready.reason, ready.message or ""


def test_dataset_that_refers_to_another_is_read_through_its_cluster() -> None:
    world = referring(changed(bound().dataset, sharedWith=["team"]))
    world.use(("pod team/train", "node-2"))
    made = world.settle()
    (mount,) = made.roles
    assert (mount.id, mount.cluster, mount.secrets) == ("mount-node-2", "default/imagenet", ())
    assert made.volume is not None
    assert (made.volume.dataset, made.volume.sub_path) == ("team/mirror", "train")
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.BOUND
    assert made.dataset_status.ufs_total == "143.67GiB"


def test_dataset_that_refers_waits_for_the_other() -> None:
    made = referring(changed(objects(SEED)[0], sharedWith=["*"])).reconcile()
    assert said(made)[0] == "DatasetReferenceNotReady"


@pytest.mark.parametrize("shared_with", [[], ["other"], ["default"], ["tea", "team-b"]])
def test_what_is_not_shared_looks_as_if_it_did_not_exist(shared_with: list[str]) -> None:
    there, missing = referring(changed(bound().dataset, sharedWith=shared_with)), World.of(REFERENCE)
    for world in (there, missing):
        world.use(("pod team/train", "node-2"))
    plans = [world.settle() for world in (there, missing)]
    assert plans[0].dataset_status == plans[1].dataset_status
    reason, message = said(plans[0])
    assert reason == "DatasetNotShared"
    assert "ask the owners" in message
    assert all((made.roles, made.steps.start, made.closes) == ((), (), True) for made in plans)


def test_what_is_shared_no_more_ends_under_those_who_read() -> None:
    world = referring(changed(bound().dataset, sharedWith=["team"]))
    world.use(("pod team/train", "node-2"))
    world.settle()
    world.references["default/imagenet"] = bound().dataset
    made = world.plan()
    assert made.steps.stop == ("mount-node-2",)
    assert made.steps.cuts_readers
    assert made.dataset_status is not None
    assert made.dataset_status.phase is DatasetPhase.NOT_BOUND
    assert made.dataset_status.mounts == ()


@pytest.mark.parametrize("exists", [True, False])
def test_a_tree_of_several_origins_tells_nothing_of_other_namespaces(exists: bool) -> None:
    text = SEED.replace("mountPoint: oss://bucket/imagenet", "mountPoint: dataset://team/secret")
    world = World.of(text)
    if exists:
        world.references["team/secret"] = changed(objects(SEED)[0], sharedWith=["*"])
    reason, _ = said(world.reconcile())
    assert reason == "DatasetReferenceRefused"


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


def test_mount_of_a_reference_that_somebody_uses_is_not_ended_when_its_node_is_unknown() -> None:
    world = World.of(REFERENCE)
    world.references["default/imagenet"] = bound().dataset
    world.use(("process 1 (sh)", "node-2"))
    world.settle()
    world.see(nodes=tuple(node for node in world.seen.nodes if node.name != "node-2"))
    for _ in range(5):
        assert "mount-node-2" not in world.reconcile().steps.stop


def test_a_part_of_another_dataset_leaves_out_what_that_one_does() -> None:
    text = SEED.replace("metadata: {name: imagenet,", "metadata: {name: copy,").replace(
        "    - mountPoint: oss://bucket/imagenet\n      name: imagenet",
        "    - mountPoint: dataset://default/source/imagenet/train\n      name: copy\n      exclude: ['*.o']",
    )
    world = World.of(text)
    source = SEED.replace("{name: imagenet,", "{name: source,").replace(
        "      name: imagenet\n", "      name: imagenet\n      exclude: [/train/tmp]\n"
    )
    world.references["default/source"] = objects(source)[0]
    made = world.settle()
    (origin,) = next(role.settings.origins for role in made.roles if role.id == "master")
    assert (origin.origin, origin.exclude, origin.exclude_below) == (
        "oss://bucket/imagenet/train", ("/train/tmp",), "train",
    )  # fmt: skip
    assert made.dataset_status is not None
    ignored = condition_of(made.dataset_status.conditions, "FieldsIgnored")
    assert ignored is not None
    assert "spec.mounts[0].exclude" in ignored.message


def test_patterns_at_a_reference_are_told_to_have_no_effect() -> None:
    world = World.of(REFERENCE.replace("name: mirror}]", "name: mirror, exclude: ['*.o']}]"))
    world.references["default/imagenet"] = changed(bound().dataset, sharedWith=["team"])
    world.see(secrets={})
    made = world.settle()
    assert made.dataset_status is not None
    ignored = condition_of(made.dataset_status.conditions, "FieldsIgnored")
    assert ignored is not None
    assert "that dataset's own mounts say" in ignored.message
