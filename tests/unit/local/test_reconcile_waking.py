"""A dataset that gives up a node wakes those that wait for one."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from headrace.api.reading import read_objects
from headrace.local import intake
from headrace.local.database import Database
from headrace.local.messages import NodesWish
from headrace.local.places import Places
from headrace.local.reconcile.loop import DatasetReconciler
from headrace.local.roles import RoleOrder
from headrace.local.world import World
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
    places = Places(tmp_path / "local")
    places.make()
    world = World(Database(places.database), places, Environment.current())
    world.nodes.make(NodesWish(count=1, plain=True))
    with world.store.changing() as writer:
        for thing in read_objects(WAITING.replace("/FOLDER", str(tmp_path)), "test"):
            intake.apply(writer, intake.wish_of(thing, "default"))
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    log = str(tmp_path / "log")
    order = RoleOrder("default.gone.worker-0", "default", "gone", "worker", "node-1", command, log)
    woken: list[tuple[str, str]] = []
    world.look_at = woken.extend

    async def look() -> None:
        world.roles.start(order)
        reconciler = DatasetReconciler(world)
        try:
            await reconciler.reconcile("default", "waiting")
            assert woken == []
            for _ in range(2):
                await reconciler.reconcile("default", "gone")
        finally:
            await world.roles.stop(order.id, grace_s=0.0)
            await reconciler.close()

    asyncio.run(look())
    world.database.close()
    assert woken == [("default", "waiting")]
