"""Datasets that refer to others."""

from __future__ import annotations

from planned import SEED, World, bound, objects

from headrace.api.dataset import DatasetPhase
from headrace.plan.condition_times import condition_of

REFERENCE = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: mirror, namespace: team}
spec:
  mounts: [{mountPoint: "dataset://default/imagenet/train", name: mirror}]
"""


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


def test_mount_of_a_reference_that_somebody_uses_is_not_ended_when_its_node_is_unknown() -> None:
    world = World.of(REFERENCE)
    world.references["default/imagenet"] = bound().dataset
    world.use(("process 1 (sh)", "node-2"))
    world.settle()
    world.see(nodes=tuple(node for node in world.seen.nodes if node.name != "node-2"))
    for _ in range(5):
        assert "mount-node-2" not in world.reconcile().steps.stop
