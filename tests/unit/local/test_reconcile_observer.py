"""What is seen of a dataset that only refers to another: where that one is at home, and where its master answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from planned import SEED

from headrace.api.manifests import read_objects
from headrace.local.datasets.dataset_layout import Addresses, DatasetLayout
from headrace.local.datasets.desired_state import desired_state_of
from headrace.local.datasets.reference_index import ReferenceIndex
from headrace.local.layout import BackendLayout
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.role_processes import RoleOrder, RoleRecord
from headrace.local.reconcile.back_off import StartBackOff
from headrace.local.reconcile.observer import Observer, observe
from headrace.local.reconcile.open_file_scan import OpenFileScan
from headrace.local.reconcile.role_states import RoleStates
from headrace.local.store import admission
from headrace.local.store.database import Database
from headrace.local.store.object_store import Store
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
    with store.changing() as transaction:
        for thing in read_objects(SEED + VIEW, "test"):
            admission.apply(transaction, admission.wish_of(thing, "default"))
    index, key = ReferenceIndex(store), ("team", "view")
    index.read_all()
    observer = Observer(
        DatasetLayout(BackendLayout(folder), key),
        Addresses(database),
        StartBackOff(database),
        RoleStates(),
        b"0123456789abcdef",
        OpenFileScan(folder / "nodes"),
    )
    nodes = [node(folder, number) for number in (1, 2)]
    return asyncio.run(observe(desired_state_of(store, index, key), observer, nodes, records, NOW))


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
