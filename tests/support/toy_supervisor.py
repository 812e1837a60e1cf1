"""A supervisor whose reconciler runs one process for each dataset, on the first node: enough to try the seam with."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from headrace.local.reconciler import NextLook
from headrace.local.records import Reference
from headrace.local.roles import RoleOrder
from headrace.local.supervisor import main
from headrace.local.world import World

FINALIZER = "toy"
PROGRAM = "import os, time; print('serving as', os.getpid(), flush=True); time.sleep(600)"


class Toy:
    def __init__(self, world: World) -> None:
        self.world = world

    def concerned(self, changed: Reference) -> Iterable[tuple[str, str]]:
        return [(changed.namespace, changed.name)] if changed.kind == "Dataset" else []

    async def reconcile(self, namespace: str, name: str) -> NextLook:
        world, role = self.world, f"{namespace}.{name}.worker-0"
        record = world.store.get(Reference("Dataset", namespace, name))
        if record is None:
            return NextLook()
        if record.deleted is not None:
            await world.roles.stop(role)
            world.store.set_finalizers(record, [])
            return NextLook()
        if FINALIZER not in record.finalizers:
            record = world.store.set_finalizers(record, [*record.finalizers, FINALIZER])
        running = world.roles.get(role)
        if running is None or running.state == "ended":
            node = world.nodes.all()[0]
            log = str(node.folder / role / "role.log")
            command = (sys.executable, "-c", PROGRAM)
            world.roles.start(
                RoleOrder(role, namespace, name, "worker", node.name, command, log), node.prefix
            )
            world.events.add(record, "Normal", "Started", f"worker-0 runs on {node.name}")
        condition = {"type": "Ready", "status": "True", "reason": "DatasetReady"}
        world.store.set_status(record, {"phase": "Bound", "conditions": [condition]})
        return NextLook()

    async def close(self) -> None: ...


if __name__ == "__main__":
    sys.exit(main(Toy))
