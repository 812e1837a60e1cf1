"""A dataset that gives up a node wakes those that wait for one."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from headrace.api.manifests import read_objects
from headrace.local.context import BackendContext
from headrace.local.layout import BackendLayout
from headrace.local.processes.role_processes import RoleOrder
from headrace.local.protocol.messages import NodesWish
from headrace.local.reconcile.dataset_reconciler import DatasetReconciler
from headrace.local.store import admission
from headrace.local.store.database import Database
from headrace.settings.environment import Environment

# Its roles are another user's, so that none of them starts.
WAITING = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: waiting}
spec: {mounts: [{mountPoint: "local:///FOLDER", name: a}]}
---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {name: waiting}
spec:
  replicas: 1
  runAs: {uid: 12345, gid: 12345, user: nobody, group: nobody}
  tieredstore: {levels: [{mediumtype: SSD, path: /FOLDER/cache, quota: 1Mi}]}
"""


def test_the_end_of_a_dataset_wakes_who_waits_for_its_node(tmp_path: Path) -> None:
    layout = BackendLayout(tmp_path / "local")
    layout.make()
    context = BackendContext(Database(layout.database), layout, Environment.current())
    context.nodes.make(NodesWish(count=1, plain=True))
    with context.store.changing() as transaction:
        for thing in read_objects(WAITING.replace("/FOLDER", str(tmp_path)), "test"):
            admission.apply(transaction, admission.wish_of(thing, "default"))
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    log = str(tmp_path / "log")
    order = RoleOrder("default.gone.worker-0", "default", "gone", "worker", "node-1", command, log)
    woken: list[tuple[str, str]] = []
    context.enqueue = woken.extend

    async def look() -> None:
        context.roles.start(order)
        reconciler = DatasetReconciler(context)
        try:
            await reconciler.reconcile("default", "waiting")
            assert woken == []
            for _ in range(2):
                await reconciler.reconcile("default", "gone")
        finally:
            await context.roles.stop(order.id, grace_s=0.0)
            await reconciler.close()

    asyncio.run(look())
    context.database.close()
    assert woken == [("default", "waiting")]
