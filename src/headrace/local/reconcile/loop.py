"""One look at a dataset: read what is declared, see what runs, plan, say, do. Between looks nothing is remembered that
could not be found out again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from headrace.api.kinds import Runtime
from headrace.local.nodes import VirtualNode
from headrace.local.reconcile import operating
from headrace.local.reconcile.jobs import Jobs
from headrace.local.reconcile.masters import Masters
from headrace.local.reconcile.observing import Eyes, observe, users_now
from headrace.local.reconcile.operating import PlannedOperation, plan_operations
from headrace.local.reconcile.places import Addresses, DatasetPlaces
from headrace.local.reconcile.relations import Relations
from headrace.local.reconcile.rendering import Means
from headrace.local.reconcile.reserving import Reservations
from headrace.local.reconcile.saying import belong, say, say_volume
from headrace.local.reconcile.scene import Scene, concerned, scene_of
from headrace.local.reconcile.standing import Standings
from headrace.local.reconcile.taking import STARTING_S, Hands
from headrace.local.reconcile.troubles import Troubles
from headrace.local.reconcile.using import Users
from headrace.local.reconciler import Dataset as Key
from headrace.local.reconciler import NextLook
from headrace.local.records import Reference
from headrace.local.secret_values import digest_key
from headrace.local.writing import Writer
from headrace.plan.observed import Observed, RoleFacts, RoleState
from headrace.plan.outcome import Plan
from headrace.plan.plan import plan, plan_spare
from headrace.plan.roles import RoleKind
from headrace.plan.runtimes import wanted_of
from headrace.plan.steps import teardown_steps

if TYPE_CHECKING:
    from headrace.local.world import World
    from headrace.plan.declared import Declared

_log = logging.getLogger("headrace.local")


class DatasetReconciler:
    """Brings datasets in line with their declarations. Used from one event loop; `concerned` from any thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._addresses = Addresses(world.database)
        self._relations = Relations(world.store)
        self._relations.read_all()
        self._troubles = Troubles(world.database)
        self._standings = Standings()
        self._users = Users(world.places.nodes)
        self._reservations = Reservations()
        self._digest_key = digest_key(world.database)
        self._jobs = Jobs(world, Masters(world.places, self._addresses, world.roles))
        self._own = threading.local()

    def concerned(self, changed: Reference) -> Iterable[Key]:
        """Everybody whom a change matters to, but for the one who is just saying it."""
        found = concerned(self._relations, changed)
        return found - {getattr(self._own, "key", None)}

    async def reconcile(self, namespace: str, name: str) -> NextLook:
        """One look."""
        key = (namespace, name)
        places = DatasetPlaces(self._world.places, key)
        scene, nodes = await asyncio.gather(
            asyncio.to_thread(scene_of, self._world.store, self._relations, key),
            asyncio.to_thread(self._world.nodes.all),
        )
        now = datetime.now(UTC).replace(microsecond=0)
        self._note_ends(key, now)
        uses = tuple(self._world.uses.of(key))
        eyes = Eyes(
            places, self._addresses, self._troubles, self._standings, self._digest_key, self._users, uses
        )
        observed = await observe(scene, eyes, nodes, self._world.roles.all(), now)
        if self._may_end_mounts(scene, observed, now):
            # Nobody shall lose a mount that was not yet used when it was looked at.
            users = await users_now(scene, eyes, nodes, self._world.roles.all())
            observed = replace(observed, users=users)
        self._remember(places, observed.roles)
        self._reservations.see(scene.title, self._world.roles.all())
        hands = self._hands(scene, places, nodes)
        looks = [await self._serve(scene, observed, hands, now), await self._operate(scene, observed, now)]
        if any(facts.state is RoleState.STARTING for facts in observed.roles):
            looks.append(STARTING_S)
        self._wake_others(scene)
        wanted = [look for look in looks if look is not None]
        return NextLook(min(wanted) if wanted else None)

    async def close(self) -> None:
        """Roles and loads go on."""
        await self._jobs.close()

    async def _serve(self, scene: Scene, observed: Observed, hands: Hands, now: datetime) -> float | None:
        """Dataset and runtime a step further; seconds until the next."""
        if scene.declared is None:
            return await self._abandon(scene, observed, hands)
        # Nothing is awaited between seeing what the others have and taking one's own.
        planned = self._plan(scene, observed, now)
        runtime = scene.declared.runtime
        self._reservations.note(scene.title, planned, wanted_of(runtime).workers if runtime else 0)
        if not observed.roles and not planned.roles and not planned.holds:
            # Nothing of it is left but files, and those go before the last word is said.
            await hands.clear()
        await asyncio.to_thread(self._say, scene, planned, now)
        if scene.dataset is not None and scene.dataset.deleted and not planned.finalizers.dataset:
            # What it owned is asked to go with it, and that is not told to the one who did it.
            return 0.0
        wait_s = await hands.take(planned, now)
        return min(planned.next_look_s, wait_s) if wait_s is not None else planned.next_look_s

    def _may_end_mounts(self, scene: Scene, observed: Observed, now: datetime) -> bool:
        has_mounts = any(facts.role == RoleKind.MOUNT for facts in observed.roles)
        return (
            scene.declared is not None and has_mounts and self._plan(scene, observed, now).steps.ends_mounts
        )

    def _plan(self, scene: Scene, observed: Observed, now: datetime) -> Plan:
        others = self._reservations.others(scene.title, self._world.roles.all(), scene.exclusive)
        return plan(cast("Declared", scene.declared), replace(observed, others=others), now)

    async def _operate(self, scene: Scene, observed: Observed, now: datetime) -> float | None:
        planned = await plan_operations(scene, observed, self._jobs, now)
        if not planned:
            return None
        for each in planned:
            if not each.plan.finalizers and not each.plan.cancel and each.plan.start is None:
                # Once the last finalizer is off, whoever waits for its end expects nothing of it any more.
                await self._jobs.forget(each.record.uid)
        await asyncio.to_thread(self._say_operations, scene, planned)
        for each in planned:
            await operating.take(each, scene, self._jobs)
        # What was just ordered is soon under way.
        return min(0.5 if each.plan.start else each.plan.next_look_s for each in planned)

    async def _abandon(self, scene: Scene, observed: Observed, hands: Hands) -> float | None:
        """What runs for a dataset that is not declared any more ends."""
        self._reservations.forget(scene.title)
        if not observed.roles:
            await hands.clear()
            return None
        await hands.end(teardown_steps(observed).stop)
        _log.info("dataset/%s: is gone, what ran for it is ended", scene.title)
        return 0.0

    def _say(self, scene: Scene, planned: Plan, now: datetime) -> None:
        with self._saying(scene) as writer:
            say_volume(writer, scene, planned.volume)
            if scene.dataset is not None and scene.runtime is not None:
                belong(writer, scene.runtime, scene.dataset)
            if scene.dataset is not None:
                say(writer, scene.dataset, planned.dataset_status, planned.events, planned.finalizers.dataset)
            if scene.runtime is not None:
                say(writer, scene.runtime, planned.runtime_status, planned.events, planned.finalizers.runtime)
            self._say_spares(writer, scene, now)

    def _say_spares(self, writer: Writer, scene: Scene, now: datetime) -> None:
        """Runtimes of the same name that do not serve it."""
        serving = scene.declared.runtime if scene.declared else None
        for record in scene.spares if serving is not None else ():
            planned = plan_spare(cast("Runtime", record.thing()), cast("Runtime", serving), now)
            say(writer, record, planned.runtime_status, planned.events, planned.finalizers.runtime)

    def _say_operations(self, scene: Scene, planned: Sequence[PlannedOperation]) -> None:
        with self._saying(scene) as writer:
            for each in planned:
                if scene.dataset is not None:
                    belong(writer, each.record, scene.dataset)
                each.say(writer)

    @contextmanager
    def _saying(self, scene: Scene) -> Iterator[Writer]:
        """A transaction whose changes wake everybody else."""
        self._own.key = scene.key
        try:
            with self._world.store.changing() as writer:
                yield writer
        finally:
            self._own.key = None

    def _wake_others(self, scene: Scene) -> None:
        """A node that was given up may be what others wait for."""
        if self._reservations.gave_up(scene.title, self._world.roles.all()):
            lacking = sorted(self._reservations.lacking(scene.title))
            self._world.look_at(
                [(namespace, name) for namespace, _, name in (each.partition("/") for each in lacking)]
            )

    def _remember(self, places: DatasetPlaces, roles: Iterable[RoleFacts]) -> None:
        """For who asks how it is."""
        seen, prefix = self._world.seen_roles, places.order_id("")
        for order_id in [each for each in seen if each.startswith(prefix)]:
            del seen[order_id]
        seen |= {places.order_id(facts.id): facts for facts in roles}

    def _note_ends(self, key: Key, now: datetime) -> None:
        for record in self._world.roles.all():
            is_own = (record.order.namespace, record.order.dataset) == key and record.order.kind != "job"
            if is_own and record.state == "ended":
                self._troubles.note_end(record, now)

    def _hands(self, scene: Scene, places: DatasetPlaces, nodes: Sequence[VirtualNode]) -> Hands:
        means = Means(places, self._addresses, self._world.folders, scene)
        return Hands(self._world.database.instance, means, self._world.roles, nodes, self._troubles)
