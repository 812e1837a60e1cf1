"""The supervisor: one process that holds the lock, the store and the nodes, answers the command line, and has datasets
reconciled. Roles do not need it to run, only to be changed; the next supervisor takes them over.

SIGTERM and SIGINT end it in order. Started by `launch`, with its spec on standard input.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from headrace.api.kinds import KINDS
from headrace.errors import HeadraceError
from headrace.local.context import BackendContext
from headrace.local.dataset_queue import WorkQueue
from headrace.local.jobs.job_endpoints import JobEndpoints
from headrace.local.jobs.job_reconciler import JobReconciler
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle.backend_lock import owning
from headrace.local.lifecycle.guard_keeping import GUARD, GuardKeeper
from headrace.local.lifecycle.revival import note_home
from headrace.local.processes.log_rotation import keep_trimmed
from headrace.local.protocol.messages import SupervisorSpec
from headrace.local.reconciler import IdleReconciler, MappingReconciler
from headrace.local.server.endpoints import Endpoints
from headrace.local.server.http_server import Server
from headrace.local.server.watchers import Watchers
from headrace.local.store.database import Database
from headrace.local.store.object_store import Selection
from headrace.local.store.records import Reference
from headrace.local.store.volume_binder import KINDS as VOLUME_KINDS
from headrace.local.store.volume_binder import Binder
from headrace.process.garbage import pass_over_what_is_there
from headrace.roles.logs import start_python_log
from headrace.roles.messages import Answer
from headrace.settings.environment import Environment

_log = logging.getLogger("headrace.local")

_LOCK_S = 1.0


MakeReconciler = Callable[[BackendContext], MappingReconciler]


class Supervisor:
    """One run."""

    def __init__(self, spec: SupervisorSpec, environment: Environment, make: MakeReconciler) -> None:
        self._spec = spec
        self._environment = environment
        self._make = make
        self._ending = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Serves until it is told to end; calls `ready` when it answers."""
        layout = BackendLayout(self._spec.folder)
        note_home(layout)
        database = Database(layout.database)
        try:
            await self._serve(BackendContext(database, layout, self._environment), ready)
        finally:
            database.close()

    async def _serve(self, context: BackendContext, ready: Callable[[], None]) -> None:
        self._listen_to_signals()
        await asyncio.to_thread(context.nodes.make, self._spec.nodes)
        context.roles.recover(known={GUARD, *(consumer.id for consumer in context.consumers.all())})
        queue, watchers = WorkQueue(self._make(context)), Watchers()
        binder, runner = Binder(context.store), JobReconciler(context)
        self._connect(context, queue, watchers, binder)
        context.on_training_end = runner.role_ended
        training = JobEndpoints(context, runner).all()
        server = Server([*Endpoints(context, watchers, self._spec.release).all(), *training])
        await server.start(context.layout)
        chores = [
            asyncio.create_task(keep_trimmed(lambda: _logs(context))),
            asyncio.create_task(binder.run()),
            asyncio.create_task(context.consumers.follow()),
        ]
        guarding = GuardKeeper(self._spec, context.database.instance, self._environment)
        if not self._spec.idle:
            chores.append(asyncio.create_task(guarding.keep()))
            runner.begin()
        try:
            ready()
            await self._ending.wait()
        finally:
            for chore in chores:
                chore.cancel()
            if self._ending.is_set():
                await guarding.dismiss()
            await server.close()
            await runner.end()
            await queue.close()
            context.roles.close()
            context.layout.socket.unlink(missing_ok=True)

    def _connect(self, context: BackendContext, queue: WorkQueue, watchers: Watchers, binder: Binder) -> None:
        """Has everything reconciled once, and then what changes."""
        loop = asyncio.get_running_loop()

        def changed(references: tuple[Reference, ...]) -> None:
            watchers.wake()
            datasets = {each for reference in references for each in queue.affected_datasets(reference)}
            loop.call_soon_threadsafe(queue.enqueue, sorted(datasets))
            if any(reference.kind in VOLUME_KINDS for reference in references):
                loop.call_soon_threadsafe(binder.reconcile)

        context.store.on_change(changed)
        context.enqueue = queue.enqueue
        context.on_role_end = lambda record: queue.enqueue([(record.order.namespace, record.order.dataset)])

        def nodes_changed() -> None:
            loop.call_soon_threadsafe(queue.enqueue, _datasets(context))

        context.on_nodes_change = nodes_changed
        records, _ = context.store.select(Selection(tuple(KINDS)))
        changed(tuple(record.reference for record in records))

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)


def _logs(context: BackendContext) -> list[Path]:
    return [context.layout.log, *(Path(record.order.log_file) for record in context.roles.all())]


def _datasets(context: BackendContext) -> list[tuple[str, str]]:
    records, _ = context.store.select(Selection(("Dataset",)))
    return [(record.reference.namespace, record.reference.name) for record in records]


def _make_idle(_: BackendContext) -> MappingReconciler:
    return IdleReconciler()


def main(make: MakeReconciler) -> int:
    """Runs a supervisor: its spec on standard input, the descriptor of the answer as the only argument."""
    answer = int(sys.argv[1])
    spec = SupervisorSpec.model_validate_json(sys.stdin.buffer.read())
    start_python_log("info")
    pass_over_what_is_there()
    told = False

    def tell(what: Answer) -> None:
        nonlocal told
        if not told:
            told = True
            what.send(answer)

    async def run() -> None:
        maker = _make_idle if spec.idle else make
        await Supervisor(spec, Environment.current(), maker).run(lambda: tell(Answer(mode=str(os.getpid()))))

    try:
        with owning(BackendLayout(spec.folder), wait_s=_LOCK_S):
            asyncio.run(run())
    except HeadraceError as error:
        _log.error("supervisor: %s", error)
        tell(Answer.of_error(error))
        return 1
    except Exception as error:
        _log.exception("supervisor: ended by a fault")
        tell(Answer.of_error(error))
        return 1
    return 0


if __name__ == "__main__":
    # Here, since it builds on the world that this module describes.
    from headrace.local.reconcile.dataset_reconciler import DatasetReconciler

    sys.exit(main(DatasetReconciler))
