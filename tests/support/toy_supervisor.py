"""A supervisor whose reconciler runs one process for each dataset, on the first node: enough to try the seam with."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from headrace.local import supervisor
from headrace.local.context import BackendContext
from headrace.local.lifecycle.guard_keeping import GuardKeeper
from headrace.local.processes.role_processes import RoleOrder
from headrace.local.reconciler import ReconcileResult
from headrace.local.store.records import Reference

FINALIZER = "toy"
PROGRAM = "import os, time; print('serving as', os.getpid(), flush=True); time.sleep(600)"


class Toy:
    def __init__(self, context: BackendContext) -> None:
        self.context = context

    def affected_datasets(self, changed: Reference) -> Iterable[tuple[str, str]]:
        return [(changed.namespace, changed.name)] if changed.kind == "Dataset" else []

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        context, role = self.context, f"{namespace}.{name}.worker-0"
        record = context.store.get(Reference("Dataset", namespace, name))
        if record is None:
            return ReconcileResult()
        if record.deleted is not None:
            await context.roles.stop(role)
            context.store.set_finalizers(record, [])
            return ReconcileResult()
        if FINALIZER not in record.finalizers:
            record = context.store.set_finalizers(record, [*record.finalizers, FINALIZER])
        running = context.roles.get(role)
        if running is None or running.state == "ended":
            node = context.nodes.all()[0]
            log = str(node.folder / role / "role.log")
            command = (sys.executable, "-c", PROGRAM)
            context.roles.start(
                RoleOrder(role, namespace, name, "worker", node.name, command, log), node.prefix
            )
            context.events.add(record, "Normal", "Started", f"worker-0 runs on {node.name}")
        condition = {"type": "Ready", "status": "True", "reason": "DatasetReady"}
        context.store.set_status(record, {"phase": "Bound", "conditions": [condition]})
        return ReconcileResult()

    async def close(self) -> None: ...


class Unguarded(GuardKeeper):
    """A guard knows the real supervisor only. Started by it after a kill, that one would find no runtime for the
    dataset, and end its role: the guard is faster than the test's own `up` now and then.
    """

    async def keep(self) -> None:
        await asyncio.Event().wait()


if __name__ == "__main__":
    supervisor.GuardKeeper = Unguarded
    sys.exit(supervisor.main(Toy))
