"""Folders of nodes that a tenant names: caches and backups lie where the administrator has them lie, and apart."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import yaml
from planned import SEED, World, bound, changed, objects

from headrace.errors import ConfigError
from headrace.plan.job_specs import BackupJob, OperationContext, job_of
from headrace.plan.policy import Policy, policy_of
from headrace.plan.reasons import Wait
from headrace.plan.roles import RoleKind

PATH = "/var/lib/docker/jindo"


def world_of(path: str, policy: Policy | None = Policy()) -> World:  # noqa: B008
    world = World.of(SEED.replace(PATH, f"'{path}'"))
    world.see(policy=policy)
    return world


def said(world: World) -> str:
    assert world.plan().roles == ()
    assert world.reconcile().steps.start == ()
    assert world.dataset is not None
    assert world.dataset.status is not None
    (ready,) = [each for each in world.dataset.status.conditions if each.type == "Ready"]
    return f"{ready.reason}: {ready.message}"


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/etc",
            "/",
            "/var/lib/kubelet",
            "/var/lib/headrace",
            "/var/lib/headrace/state",
            "/var/lib/headrace/mounts",
        ),
        # Below a root are the folders of other datasets.
        *("/dev/shm/team-b/imagenet", "/var/lib/docker/jindo/team-b", "/var/lib/docker/jindo,/root"),
    ],
)
def test_a_cache_lies_in_no_folder_but_the_administrator_s(path: str) -> None:
    words = said(world_of(path))
    assert words.startswith("CacheFolderNotAllowed")
    assert "spec.tieredstore.levels[0].path" in words
    assert "/dev/shm" in words
    assert "policy.cacheFolders" in words


@pytest.mark.parametrize(
    "path", [PATH, f"{PATH}/", "//var/lib//docker/./jindo", "/dev/shm,/var/lib/docker/alluxio"]
)
def test_the_folders_that_are_allowed_are_used_however_they_are_written(path: str) -> None:
    made = world_of(path).settle()
    folders = {each.folder for role in made.roles for each in role.cache}
    assert folders <= {f"{root}/default/imagenet" for root in Policy().cache_folders}
    assert len(folders) == path.count(",") + 1


def test_folders_within_a_pod_are_nobody_s_business() -> None:
    world = World.of(
        SEED.replace("mediumtype: SSD", "mediumtype: SSD, volumeType: emptyDir").replace(PATH, "/etc")
    )
    world.see(policy=Policy())
    assert any(role.cache for role in world.settle().roles)


def test_what_runs_goes_on_where_the_policy_came_later() -> None:
    world = bound()
    running = {each.id for each in world.seen.roles}
    world.see(policy=Policy(cache_folders=("/ssd",)))
    made = world.plan()
    assert made.holds
    assert not made.steps
    assert {each.id for each in world.seen.roles} == running
    assert "CacheFolderNotAllowed" in str(made.dataset_status)


def test_no_folder_twice_however_it_is_written() -> None:
    with pytest.raises(ConfigError, match="twice"):
        World.of(SEED.replace(PATH, "'/dev/shm,/dev//shm'"))


@pytest.mark.parametrize(
    "policy",
    [
        {"cacheFolders": ["/data", "/data/ssd"]},
        {"cacheFolders": ["/data"], "backupFolders": ["/data/backups"]},
        {"cacheFolders": ["/"]},
        {"backupFolders": ["/data/../etc"]},
    ],
)
def test_roots_that_lie_in_each_other_are_refused(policy: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Folders"):
        policy_of(json.dumps(policy))


@pytest.mark.parametrize(
    "folder", ["/var/lib", "/var/lib/headrace", "/var/lib/headrace/state/caches", "/var"]
)
def test_no_root_holds_what_is_headrace_s_own(folder: str) -> None:
    with pytest.raises(ConfigError, match="nodeFolder"):
        Policy(cache_folders=(folder,), backup_folders=()).check_beside("/var/lib/headrace")
    Policy().check_beside("/var/lib/headrace")


def backup(place: str, policy: Policy | None = Policy()) -> Any:  # noqa: B008
    world = World.of()
    world.settle()
    seen = dataclasses.replace(world.seen, policy=policy)
    spec = {"dataset": "imagenet", "backupPath": place}
    head = {"apiVersion": "data.fluid.io/v1alpha1", "kind": "DataBackup", "metadata": {"name": "daily"}}
    (operation,) = objects(yaml.safe_dump(head | {"spec": spec}))
    return job_of(operation, OperationContext({"default/imagenet": world.dataset}, {}, seen))  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "place",
    [
        *("local:///etc/cron.d", "local:///", "local:///var/lib/headrace/backups"),
        *("local:///var/lib/headrace/backups/team-b/daily", "local:///var/lib/headrace/backups/default-b"),
    ],
)
def test_a_backup_is_written_below_the_folder_of_its_namespace_alone(place: str) -> None:
    found = backup(place)
    assert isinstance(found, Wait)
    assert found.reason == "BackupFolderNotAllowed"
    assert "/var/lib/headrace/backups/default" in found.message


def test_a_backup_is_written_where_it_may_be() -> None:
    assert isinstance(backup("local:////var/lib/headrace/./backups/default/daily"), BackupJob)
    assert isinstance(backup("local:///etc/cron.d", None), BackupJob)


def test_a_dataset_begins_from_no_other_namespace_s_backup() -> None:
    place = "local:///var/lib/headrace/backups/{}/daily"
    world = World.of()
    world.see(policy=Policy())
    location = {"path": place.format("team-b"), "nodeName": "node-1"}
    world.dataset = changed(world.dataset, dataRestoreLocation=location)
    assert said(world).startswith("BackupFolderNotAllowed")
    world.dataset = changed(world.dataset, dataRestoreLocation=location | {"path": place.format("default")})
    made = world.settle()
    (master,) = [role for role in made.roles if role.kind is RoleKind.MASTER]
    assert master.restore_from == place.format("default")
    # Programs read it already: a master that begins anew lists the origins.
    world.dataset = changed(world.dataset, dataRestoreLocation=location)
    (master,) = [role for role in world.plan().roles if role.kind is RoleKind.MASTER]
    assert master.restore_from is None


@pytest.mark.parametrize("medium", ["MEM", "SSD", "HDD"])
def test_a_level_without_a_path_lies_where_the_default_policy_allows_it(medium: str) -> None:
    level = SEED.replace(f"mediumtype: SSD, path: {PATH}, quota: 180G", f"mediumtype: {medium}, quota: 1Gi")
    world = World.of(level)
    world.see(policy=Policy())
    assert any(role.cache for role in world.settle().roles)
