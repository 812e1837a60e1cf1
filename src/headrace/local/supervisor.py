"""The supervisor: one process that holds the lock, the store and the nodes, answers the command line, and has datasets
looked at. Roles do not need it to run, only to be changed; the next supervisor takes them over.

SIGTERM and SIGINT end it in order. Started by `launch`, with its orders on standard input.
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
from headrace.local.attention import Attention
from headrace.local.database import Database
from headrace.local.endpoints import Endpoints
from headrace.local.guarding import GUARD, Guarding
from headrace.local.messages import SupervisorOrders
from headrace.local.ownership import owning
from headrace.local.places import Places
from headrace.local.reconciler import Idle, Reconciler
from headrace.local.records import Reference
from headrace.local.server import Server
from headrace.local.store import Selection
from headrace.local.training.endpoints import TrainingEndpoints
from headrace.local.training.runner import TrainingRunner
from headrace.local.trimming import keep_trimmed
from headrace.local.volumes import KINDS as VOLUME_KINDS
from headrace.local.volumes import Binder
from headrace.local.watching import Watchers
from headrace.local.world import World
from headrace.roles.logs import start_python_log
from headrace.roles.messages import Answer
from headrace.settings.environment import Environment

_log = logging.getLogger("headrace.local")

_LOCK_S = 1.0


MakeReconciler = Callable[[World], Reconciler]


class Supervisor:
    """One run."""

    def __init__(self, orders: SupervisorOrders, environment: Environment, make: MakeReconciler) -> None:
        self._orders = orders
        self._environment = environment
        self._make = make
        self._ending = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Serves until it is told to end; calls `ready` when it answers."""
        places = Places(self._orders.folder)
        database = Database(places.database)
        try:
            await self._serve(World(database, places, self._environment), ready)
        finally:
            database.close()

    async def _serve(self, world: World, ready: Callable[[], None]) -> None:
        self._listen_to_signals()
        await asyncio.to_thread(world.nodes.make, self._orders.nodes)
        world.roles.recover(known={GUARD, *(use.id for use in world.uses.all())})
        attention, watchers = Attention(self._make(world)), Watchers()
        binder, runner = Binder(world.store), TrainingRunner(world)
        self._connect(world, attention, watchers, binder)
        world.on_training_end = runner.role_ended
        training = TrainingEndpoints(world, runner).all()
        server = Server([*Endpoints(world, watchers, self._orders.release).all(), *training])
        await server.start(world.places)
        chores = [
            asyncio.create_task(keep_trimmed(lambda: _logs(world))),
            asyncio.create_task(binder.run()),
            asyncio.create_task(world.uses.follow()),
        ]
        guarding = Guarding(self._orders, world.database.instance, self._environment)
        if not self._orders.idle:
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
            await attention.close()
            world.roles.close()
            world.places.socket.unlink(missing_ok=True)

    def _connect(self, world: World, attention: Attention, watchers: Watchers, binder: Binder) -> None:
        """Has everything looked at once, and then what changes."""
        loop = asyncio.get_running_loop()

        def changed(references: tuple[Reference, ...]) -> None:
            watchers.wake()
            datasets = {each for reference in references for each in attention.concerned(reference)}
            loop.call_soon_threadsafe(attention.look_at, sorted(datasets))
            if any(reference.kind in VOLUME_KINDS for reference in references):
                loop.call_soon_threadsafe(binder.look)

        world.store.on_change(changed)
        world.look_at = attention.look_at
        world.on_role_end = lambda record: attention.look_at([(record.order.namespace, record.order.dataset)])

        def nodes_changed() -> None:
            loop.call_soon_threadsafe(attention.look_at, _datasets(world))

        world.on_nodes_change = nodes_changed
        records, _ = world.store.select(Selection(tuple(KINDS)))
        changed(tuple(record.reference for record in records))

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)


def _logs(world: World) -> list[Path]:
    return [world.places.log, *(Path(record.order.log_file) for record in world.roles.all())]


def _datasets(world: World) -> list[tuple[str, str]]:
    records, _ = world.store.select(Selection(("Dataset",)))
    return [(record.reference.namespace, record.reference.name) for record in records]


def _make_idle(_: World) -> Reconciler:
    return Idle()


def main(make: MakeReconciler) -> int:
    """Runs a supervisor: orders on standard input, the descriptor of the answer as the only argument."""
    answer = int(sys.argv[1])
    orders = SupervisorOrders.model_validate_json(sys.stdin.buffer.read())
    start_python_log("info")
    told = False

    def tell(what: Answer) -> None:
        nonlocal told
        if not told:
            told = True
            what.send(answer)

    async def run() -> None:
        maker = _make_idle if orders.idle else make
        await Supervisor(orders, Environment.current(), maker).run(
            lambda: tell(Answer(mode=str(os.getpid())))
        )

    try:
        with owning(Places(orders.folder), wait_s=_LOCK_S):
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
    from headrace.local.reconcile.loop import DatasetReconciler

    sys.exit(main(DatasetReconciler))
