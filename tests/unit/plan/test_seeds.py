"""The seeds' datasets come up as printed there."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from planned import SEED, START, World, gpu_nodes, objects

from headrace.api.alluxio import AlluxioRuntime
from headrace.api.databackup import DataBackup
from headrace.api.dataload import DataLoad
from headrace.api.datamigrate import DataMigrate
from headrace.api.dataprocess import DataProcess
from headrace.api.dataset import Dataset, DatasetPhase
from headrace.api.jindo import JindoRuntime
from headrace.api.manifests import read_objects
from headrace.api.printing import get_text, row
from headrace.plan.job_specs import OperationContext
from headrace.plan.observed import ClaimFacts, ClaimState, Observed
from headrace.plan.operation_inputs import OperationInputs
from headrace.plan.operations import plan_operation
from headrace.plan.policy import Policy
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
    assert str(folder.word()) == "/var/lib/docker/jindo/default/imagenet:173946175488:SSD:0.99-0.8"
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


YAML = Path(__file__).parent.parent / "api"


@pytest.mark.parametrize(
    ("files", "name", "size"),
    [
        (("000-dataset.yaml", "000-runtime.yaml"), "imagenet", "648.00GiB"),
        (("001-dataset.yaml",), "imagenet", "400.00GiB"),
        (("003-dataset.yaml",), "fluid-imagenet", "600.00GiB"),
    ],
)
def test_yaml_of_the_seeds_as_it_stands_becomes_a_bound_dataset(
    files: tuple[str, ...], name: str, size: str
) -> None:
    text = "\n---\n".join((YAML / "seeds" / file).read_text(encoding="utf-8") for file in files)
    # Machines as they stand there, under the chart's own policy.
    nodes = tuple(dataclasses.replace(node, memory_bytes=336 << 30) for node in gpu_nodes(4))
    world = World.of(_without_placeholders(text), nodes)
    world.see(policy=Policy())
    world.see(claims={"nfs-imagenet": ClaimFacts(ClaimState.PRESENT, "nfs://10.0.0.9/export")})
    made = world.settle()
    assert world.dataset is not None
    assert row(world.dataset, START)[:6] == [name, "143.67GiB", "0.00B", size, "0.0%", "Bound"]
    assert made.volume is not None
    assert made.volume.name == name
    assert "xxx" not in repr(made)
    assert made.runtime_status is not None
    assert "FieldsRefused" not in {each.type for each in made.runtime_status.conditions}


def _without_placeholders(text: str) -> str:
    for word, value in (
        ("<oss_bucket>", "bucket"),
        ("<bucket_dir>", "dir"),
        ("<oss_endpoint>", "oss.example"),
    ):
        text = text.replace(word, value)
    return text


@pytest.mark.parametrize("file", sorted((YAML / "samples").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_documented_field_can_be_planned(file: Path) -> None:
    things = read_objects(file.read_text(encoding="utf-8"), file.name)
    datasets: list[Any] = [thing for thing in things if isinstance(thing, Dataset)] or [objects(SEED)[0]]
    runtimes: list[Any] = [thing for thing in things if isinstance(thing, AlluxioRuntime | JindoRuntime)]
    for dataset in datasets:
        for runtime in runtimes or [objects(SEED)[1]]:
            world = World(dataset, runtime)
            for _ in range(8):
                made = world.reconcile()
            assert made.dataset_status is not None
            assert made.dataset_status.conditions
    for operation in (
        thing for thing in things if isinstance(thing, DataLoad | DataMigrate | DataProcess | DataBackup)
    ):
        context = OperationContext({}, {}, Observed())
        assert plan_operation(OperationInputs(operation, context), START).status.phase is not None
