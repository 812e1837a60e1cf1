"""A planned role on the disk: what its command reads is what the planner meant, and secrets are for their owner."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from planned import SEED, World

from headrace.api.manifests import read_objects
from headrace.control.cluster_token import create_token, read_token
from headrace.control.rights import Rights, derive, rights_of
from headrace.errors import ConfigError, UnsupportedError
from headrace.local.datasets.dataset_layout import Addresses, DatasetLayout
from headrace.local.datasets.desired_state import desired_state_of
from headrace.local.datasets.reference_index import ReferenceIndex
from headrace.local.datasets.rendering import RenderContext, cache_folders_of, render
from headrace.local.layout import BackendLayout
from headrace.local.nodes.managed_folders import ManagedFolders
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.private_files import make_private_folder
from headrace.local.processes.role_processes import RoleOrder
from headrace.local.store import admission
from headrace.local.store.database import Database
from headrace.local.store.object_store import Store
from headrace.plan.roles import Role
from headrace.settings.environment import Environment
from headrace.settings.reading import role_settings
from headrace.settings.roles import MasterSettings, MemberSettings, WorkerSettings

SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: mysecret}
stringData: {fs.oss.accessKeyId: AKID, fs.oss.accessKeySecret: hunter2}
---
"""
NOTHING = Environment({})


@pytest.fixture
def seed(tmp_path: Path) -> str:
    return SEED.replace("/var/lib/docker/jindo", str(tmp_path / "cache"))


@pytest.fixture
def render_context(database: Database, store: Store, seed: str, tmp_path: Path) -> RenderContext:
    with store.changing() as transaction:
        for thing in read_objects(SECRET + seed, "test"):
            admission.apply(transaction, admission.wish_of(thing, "default"))
    key = ("default", "imagenet")
    layout = DatasetLayout(BackendLayout(tmp_path / "local"), key)
    index = ReferenceIndex(store)
    index.read_all()
    # A master that was rendered before has made it.
    make_private_folder(layout.folder)
    create_token(layout.token)
    return RenderContext(
        layout, Addresses(database), ManagedFolders(database), desired_state_of(store, index, key)
    )


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    return VirtualNode("node-1", 0, "198.18.0.1", {}, tmp_path / "nodes" / "node-1", "ns", None, is_made=True)


@pytest.fixture
def planned(seed: str) -> dict[str, Role]:
    return {role.id: role for role in World.of(seed).settle().roles}


def settings_file(order: RoleOrder) -> Path:
    return Path(order.command[order.command.index("--config") + 1])


def test_master_worker_and_mount_read_what_was_planned(
    render_context: RenderContext, node: VirtualNode, planned: dict[str, Role], tmp_path: Path
) -> None:
    orders = [render(planned[name], node, render_context) for name in ("master", "worker-0", "mount-node-1")]
    master, _ = role_settings(MasterSettings, settings_file(orders[0]), NOTHING)
    worker, _ = role_settings(WorkerSettings, settings_file(orders[1]), NOTHING)
    mount, _ = role_settings(MemberSettings, settings_file(orders[2]), NOTHING)
    assert master.listen == "198.18.0.1:8700"
    assert (worker.listen, worker.id, worker.node) == ("198.18.0.1:8701", "worker-0", "node-1")
    assert worker.master == mount.master == f"http://{master.listen}"
    found = [read_token(each.token_file) for each in (master, worker, mount) if each.token_file]
    assert [rights_of(token) for token in found] == [Rights.ADMINISTRATOR, Rights.WORKER, Rights.READER]
    assert found == [derive(found[0], rights_of(token)) for token in found]
    assert mount.mountpoint == node.folder / "mounts" / "default" / "imagenet"
    assert mount.mountpoint.is_dir()
    (folder,) = cache_folders_of(settings_file(orders[1]))
    assert folder == tmp_path / "cache" / "default" / "imagenet" / "node-1"
    assert folder.is_dir()
    assert [order.id for order in orders] == [
        f"default.imagenet.{name}" for name in ("master", "worker-0", "mount-node-1")
    ]


def test_values_of_secrets_stand_in_private_files_alone(
    render_context: RenderContext, node: VirtualNode, planned: dict[str, Role], tmp_path: Path
) -> None:
    orders = [render(planned[name], node, render_context) for name in ("master", "worker-0", "mount-node-1")]
    holding = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and "objects.db" not in path.name and b"hunter2" in path.read_bytes()
    ]
    assert len(holding) == 2
    for path in holding:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert json.loads(path.read_text()) == {
            "fs.oss.accessKeyId": "AKID",
            "fs.oss.accessKeySecret": "hunter2",
        }
    assert "hunter2" not in repr(orders)


def test_rendered_again_nothing_changes(
    render_context: RenderContext, node: VirtualNode, planned: dict[str, Role]
) -> None:
    first = render(planned["worker-0"], node, render_context)
    before = settings_file(first).stat().st_mtime_ns
    assert render(planned["worker-0"], node, render_context) == first
    assert settings_file(first).stat().st_mtime_ns == before


def test_a_cache_that_moves_leaves_nothing_at_its_old_place(
    render_context: RenderContext, node: VirtualNode, planned: dict[str, Role], tmp_path: Path
) -> None:
    worker = planned["worker-0"]
    (before,) = cache_folders_of(settings_file(render(worker, node, render_context)))
    (level,) = worker.cache
    moved = replace(worker, cache=(replace(level, folder=str(tmp_path / "other")),))
    (after,) = cache_folders_of(settings_file(render(moved, node, render_context)))
    assert after.is_relative_to(tmp_path / "other")
    assert after.is_dir()
    assert not before.exists()
    assert not (tmp_path / "cache").exists()


def test_a_cache_folder_that_holds_something_else_is_refused(
    render_context: RenderContext, node: VirtualNode, planned: dict[str, Role], tmp_path: Path
) -> None:
    folder = tmp_path / "cache" / "default" / "imagenet" / "node-1"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        render(planned["worker-0"], node, render_context)
    assert (folder / "thesis.tex").exists()


def test_another_user_is_refused_in_words(
    render_context: RenderContext, node: VirtualNode, seed: str
) -> None:
    other = seed.replace("  replicas: 4", "  replicas: 4\n  runAs: {uid: 1234, gid: 1234, user: a, group: a}")
    role = next(role for role in World.of(other).settle().roles if role.id == "worker-0")
    with pytest.raises(UnsupportedError, match="1234"):
        render(role, node, render_context)
