"""Folders of the nodes as origins: read where an administrator has opened them, and on nodes that may hold the data."""

from __future__ import annotations

import pytest
from planned import GPU, SEED, World, bound, changed, gpu_nodes

from headrace.plan.mount_addresses import folder_of, opened
from headrace.plan.observed import Node


def world_of(address: str, open_folders: tuple[str, ...] | None) -> World:
    world = World.of(SEED, (Node("another"), *gpu_nodes(4)))
    world.dataset = changed(world.dataset, mounts=[{"mountPoint": address, "name": "a"}])
    world.see(open_folders=open_folders)
    return world


@pytest.mark.parametrize(
    ("address", "open_folders"),
    [
        ("local:///mnt/a", ("/mnt",)),
        ("local:///mnt/a/b", ("/mnt/a",)),
        ("file:////mnt/./a/", ("/mnt/a",)),
        ("local:///mnt/a", None),
    ],
)
def test_what_is_opened_is_read(address: str, open_folders: tuple[str, ...] | None) -> None:
    assert len(world_of(address, open_folders).settle().roles) > 1


@pytest.mark.parametrize(
    "address", ["local:///mnt/ab", "local:///", "local:///mn", "FILE:///etc", "local:////etc"]
)
def test_what_is_not_opened_is_not_read_however_it_is_written(address: str) -> None:
    world = world_of(address, ("/mnt/a",))
    assert world.settle().roles == ()
    assert world.dataset is not None
    assert world.dataset.status is not None
    assert "FolderNotOpen" in {each.reason for each in world.dataset.status.conditions}


def test_a_folder_behind_a_reference_is_held_to_the_same() -> None:
    world = bound()
    other = changed(world.dataset, mounts=[{"mountPoint": "local:///mnt", "name": "a", "path": "/"}])
    world.references = {"default/other": other}
    address = "dataset://default/other/secret"
    world.dataset = changed(world.dataset, mounts=[{"mountPoint": address, "name": "a"}])
    world.see(open_folders=("/mnt/public",))
    assert "/mnt/secret of the nodes" in str(world.plan().dataset_status)


def test_master_and_workers_are_on_nodes_that_the_dataset_names() -> None:
    made = world_of("local:///mnt/a", ("/mnt",)).settle()
    nodes = {node.name: node for node in (Node("another"), *gpu_nodes(4))}
    placed = {role.node for role in made.roles if not role.id.startswith("mount-")}
    assert all(nodes[str(name)].labels == GPU for name in placed)


def test_a_folder_is_the_same_however_it_is_written() -> None:
    for address in ("local:///a/b", "FILE:///a/b/", "local:////a//./b"):
        assert folder_of(address) == "/a/b"
    assert folder_of("s3://a/b") == ""
    assert opened("/a/b", ["/a", "/a/b", "/a/bc"]) == "/a/b"
    assert opened("/a/bc", ["/a/b"]) is None
