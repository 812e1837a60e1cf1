"""The seeds' datasets come up as printed there."""

from __future__ import annotations

from planned import SEED, START, World, objects

from headrace.api.dataset import DatasetPhase
from headrace.api.printing import get_text, row
from headrace.plan.observed import ClaimFacts, ClaimState
from headrace.plan.roles import SecretKey
from headrace.plan.volume import persistent_volume, persistent_volume_claim


def test_dataset_and_runtime_print_what_the_seed_prints() -> None:
    world = World.of()
    made = world.settle()
    assert world.dataset is not None
    assert world.runtime is not None
    assert row(world.dataset, START)[:6] == ["imagenet", "143.67GiB", "0.00B", "648.00GiB", "0.0%", "Bound"]
    assert row(world.runtime, world.now)[:4] == ["imagenet", "Ready", "Ready", "Ready"]
    assert made.volume is not None
    volume, claim = persistent_volume(made.volume), persistent_volume_claim(made.volume)
    assert get_text([volume], START).splitlines()[1].split()[:6] == [
        "imagenet", "100Gi", "RWX", "Retain", "Bound", "default/imagenet",
    ]  # fmt: skip
    assert row(claim, START)[:6] == ["imagenet", "Bound", "imagenet", "100Gi", "RWX", ""]


def test_roles_start_in_order_and_are_counted_as_in_the_seed() -> None:
    world = World.of()
    made = world.settle()
    started = [step for each in world.plans for step in each.steps.start]
    workers = [f"worker-{index}" for index in range(4)]
    mounts = [f"mount-node-{number}" for number in range(1, 5)]
    assert started == ["master", *workers, *mounts]
    status = made.runtime_status
    assert status is not None
    assert (status.master_number_ready, status.worker_number_ready, status.fuse_number_ready) == (1, 4, 4)
    assert (status.desired_master_number_scheduled, status.desired_worker_number_scheduled) == (1, 4)
    assert status.desired_fuse_number_scheduled == 4


def test_describe_says_what_the_seed_says() -> None:
    world = World.of()
    made = world.settle()
    status = made.dataset_status
    assert status is not None
    assert status.phase is DatasetPhase.BOUND
    (ready,) = status.conditions
    assert (ready.type, ready.status, ready.reason, ready.message) == (
        "Ready", "True", "DatasetReady", "The ddc runtime is ready.",
    )  # fmt: skip
    assert status.runtimes[0].model_dump(exclude_unset=True) == {
        "name": "imagenet", "namespace": "default", "category": "Accelerate", "type": "jindo",
    }  # fmt: skip


def test_settings_carry_the_origin_and_name_its_secrets() -> None:
    made = World.of().settle()
    worker = next(role for role in made.roles if role.id == "worker-3")
    (origin,) = worker.settings.origins
    assert (origin.path, origin.origin) == ("imagenet", "oss://bucket/imagenet")
    assert origin.options == {"fs.oss.endpoint": "oss-cn-shanghai.aliyuncs.com"}
    (file,) = worker.secrets
    assert file.values == {
        "fs.oss.accessKeyId": SecretKey("mysecret", "fs.oss.accessKeyId"),
        "fs.oss.accessKeySecret": SecretKey("mysecret", "fs.oss.accessKeySecret"),
    }
    (folder,) = worker.cache
    assert folder.word() == "/var/lib/docker/jindo/default/imagenet:173946175488:SSD:0.99-0.8"
    assert worker.node == "node-4"


def test_mounts_hold_no_secret_and_no_origin() -> None:
    made = World.of().settle()
    mounts = [role for role in made.roles if role.kind == "mount"]
    assert len(mounts) == 4
    assert all(not role.secrets and not hasattr(role.settings, "origins") for role in mounts)


def test_alluxio_has_the_capacity_it_declares() -> None:
    text = SEED.replace("JindoRuntime", "AlluxioRuntime").replace("180G", "50Gi")
    world = World.of(text)
    world.settle()
    assert world.dataset is not None
    assert row(world.dataset, START)[3] == "200.00GiB"


def test_claim_of_an_nfs_server_becomes_its_address() -> None:
    text = SEED.replace("oss://bucket/imagenet", "pvc://nfs-imagenet/train")
    world = World.of(text)
    world.see(claims={"nfs-imagenet": ClaimFacts(ClaimState.PRESENT, "nfs://10.0.0.9/export")})
    made = world.settle()
    assert made.roles[0].settings.origins[0].origin == "nfs://10.0.0.9/export/train"
    assert objects(text)[0].spec.mounts[0].tree_path == "/imagenet"
