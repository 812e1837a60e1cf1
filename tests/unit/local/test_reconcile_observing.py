"""What is seen of a dataset that only refers to another: where that one is at home, and where its master answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from planned import SEED

from headrace.api.reading import read_objects
from headrace.local import intake
from headrace.local.database import Database
from headrace.local.nodes import VirtualNode
from headrace.local.places import Places
from headrace.local.reconcile.observing import Eyes, observe
from headrace.local.reconcile.places import Addresses, DatasetPlaces
from headrace.local.reconcile.relations import Relations
from headrace.local.reconcile.scene import scene_of
from headrace.local.reconcile.standing import Standings
from headrace.local.reconcile.troubles import Troubles
from headrace.local.reconcile.using import Users
from headrace.local.roles import RoleOrder, RoleRecord
from headrace.local.store import Store
from headrace.plan.observed import Observed

VIEW = """
---
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: view, namespace: team}
spec:
  mounts: [{mountPoint: "dataset://default/imagenet"}]
"""
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def record(role: str, kind: str, node: str, version: str = "") -> RoleRecord:
    namespace, dataset, _ = role.split(".", 2)
    order = RoleOrder(role, namespace, dataset, kind, node, (), "", version)
    return RoleRecord(order, state="running", pid=1, since="2026-01-31T00:00:00Z")


def seen(store: Store, database: Database, folder: Path, *records: RoleRecord) -> Observed:
    with store.changing() as writer:
        for thing in read_objects(SEED + VIEW, "test"):
            intake.apply(writer, intake.wish_of(thing, "default"))
    relations, key = Relations(store), ("team", "view")
    relations.read_all()
    eyes = Eyes(
        DatasetPlaces(Places(folder), key),
        Addresses(database),
        Troubles(database),
        Standings(),
        b"0123456789abcdef",
        Users(folder),
    )
    nodes = [node(folder, number) for number in (1, 2)]
    return asyncio.run(observe(scene_of(store, relations, key), eyes, nodes, records, NOW))


def node(folder: Path, number: int) -> VirtualNode:
    name = f"node-{number}"
    return VirtualNode(name, number, f"198.18.0.{number}", {}, folder / name, "ns", None, is_made=True)


def test_a_reference_is_at_home_where_the_other_ones_workers_are(
    store: Store, database: Database, tmp_path: Path
) -> None:
    records = (
        record("default.imagenet.master", "master", "node-1"),
        record("default.imagenet.worker-0", "worker", "node-2"),
        record("team.other.worker-0", "worker", "node-1"),
    )
    assert seen(store, database, tmp_path, *records).hosts == {"node-2"}


def test_a_mount_of_a_reference_is_old_when_the_other_ones_master_moves(
    store: Store, database: Database, tmp_path: Path
) -> None:
    address = Addresses(database).take("default.imagenet.master", node(tmp_path, 1))
    mounts = (
        record("team.view.mount-node-1", "mount", "node-1", f"v@http://{address}"),
        record("team.view.mount-node-2", "mount", "node-2", "v@http://198.18.0.1:1"),
    )
    versions = {facts.id: facts.version for facts in seen(store, database, tmp_path, *mounts).roles}
    assert versions == {"mount-node-1": "v", "mount-node-2": "v*"}
