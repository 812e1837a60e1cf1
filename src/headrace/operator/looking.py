"""One look at a dataset: read what is declared, see what runs, plan, say, do. Between looks nothing is remembered that
could not be found out again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from headrace.api.kinds import kind_of
from headrace.api.names import FINALIZERS
from headrace.attention import NextLook
from headrace.errors import ConfigError, HeadraceError
from headrace.kube.client import KubeClient
from headrace.kube.faults import ConflictError
from headrace.operator.leaving import is_leaving
from headrace.operator.masters import Masters
from headrace.operator.mirror import Mirror
from headrace.operator.observing import View, observe
from headrace.operator.operating import Operating
from headrace.operator.reserving import Reservations
from headrace.operator.saying import Voice
from headrace.operator.scene import Scene
from headrace.operator.settings import OperatorSettings
from headrace.operator.standing import AllStandings
from headrace.operator.taking import Hands
from headrace.operator.volumes import VolumeMaker
from headrace.plan.declared import Declared
from headrace.plan.events import Event, EventType
from headrace.plan.observed import Observed, RoleState
from headrace.plan.outcome import Finalizers, Plan
from headrace.plan.plan import plan, plan_spare
from headrace.plan.steps import teardown_steps

_log = logging.getLogger("headrace.operator")

_STARTING_S = 2.0
_AGAIN_S = 1.0
_AFTER_FAULT_S = 5.0
_IN_USE_S = 10.0

_REFUSED = "Refused"
_NOT_TAKEN = "StepRefused"


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class DatasetLooker:
    """Brings datasets in line with their declarations. Used from one event loop, by the leader alone."""

    client: KubeClient
    masters: Masters
    mirror: Mirror
    settings: OperatorSettings
    standings: AllStandings
    reservations: Reservations
    voice: Voice
    operating: Operating
    clock: Callable[[], datetime] = _utc_now

    async def reconcile(self, namespace: str, name: str) -> NextLook:
        """One look."""
        scene = await self._understood(Scene(self.mirror, (namespace, name)))
        now = self.clock().replace(microsecond=0)
        try:
            return await self._look(scene, now)
        except ConflictError as error:
            # Somebody wrote in between; what they wrote is on its way to the mirror.
            _log.debug("dataset/%s: %s", scene.title, error)
            return NextLook(_AGAIN_S)

    async def close(self) -> None:
        """Pods go on; what is being ordered is ordered again by the next leader."""
        await self.operating.close()

    @property
    def _volumes(self) -> VolumeMaker:
        return VolumeMaker(self.client, self.mirror)

    async def _understood(self, scene: Scene) -> Scene:
        """The scene, without what makes no sense if something does not."""
        try:
            _ = scene.declared
        except ConfigError as error:
            await self._refuse(scene, error)
            return scene.as_far_as_understood
        return scene

    async def _look(self, scene: Scene, now: datetime) -> NextLook:
        view = await observe(scene, self.settings, self.standings.of(scene.title), now)
        hands = Hands(self.client, self.masters, scene, view)
        faults: list[HeadraceError] = []
        looks: list[float | None] = []
        # Where something makes no sense, what runs goes on as it is, unless all is to go anyway.
        if scene.is_leaving or not scene.lenient:
            with _noting(faults):
                looks.append(await self._serve(scene, scene.declared, view, hands, now=now, faults=faults))
        with _noting(faults):
            looks.append(await self.operating.look(scene, view, self.voice, now))
        for kind, content, error in scene.refused:
            await self.voice.tell(content, kind, Event(kind, EventType.WARNING, _REFUSED, str(error)))
            if is_leaving(content):
                with _noting(faults):
                    await self.voice.let_go(kind, content)
        conflicts = [fault for fault in faults if isinstance(fault, ConflictError)]
        if conflicts:
            raise conflicts[0]
        for fault in faults:
            _log.warning("dataset/%s: %s", scene.title, fault)
        if faults:
            looks = [_AFTER_FAULT_S]
        if any(facts.state is RoleState.STARTING for facts in view.observed.roles):
            looks.append(_STARTING_S)
        wanted = [look for look in looks if look is not None]
        return NextLook(min(wanted) if wanted else None, is_complete=not faults)

    async def _serve(
        self,
        scene: Scene,
        declared: Declared | None,
        view: View,
        hands: Hands,
        *,
        now: datetime,
        faults: list[HeadraceError],
    ) -> float | None:
        """Dataset and runtime a step further; seconds until the next. What one part cannot do stops no other."""
        if declared is None:
            return await self._abandon(scene, view.observed, hands)
        # Nothing is awaited between seeing what the others have and taking one's own.
        observed = replace(view.observed, others=self.reservations.others(scene.title))
        planned = plan(declared, observed, now)
        self.reservations.note(scene.title, planned)
        is_over = not (observed.roles or planned.roles or planned.holds or observed.users)
        if is_over and not await hands.broom.clear():
            # Nothing of it is left but files, and those go before the last word is said.
            await self._say(scene, _not_yet_gone(scene, planned), observed, now, faults)
            return _STARTING_S
        await self._say(scene, planned, observed, now, faults)
        if is_over:
            with _noting(faults):
                await self._let_go(scene)
        if any(isinstance(fault, ConflictError) for fault in faults):
            return None
        try:
            if (event := await hands.take(planned)) and scene.dataset:
                await self._tell_dataset(scene, event)
        except ConflictError as error:
            faults.append(error)
        except HeadraceError as error:
            faults.append(error)
            await self._tell(scene, _NOT_TAKEN, error)
        return planned.next_look_s

    async def _abandon(self, scene: Scene, observed: Observed, hands: Hands) -> float | None:
        """What runs for a dataset that is not declared any more ends, once nobody reads it."""
        self.reservations.forget(scene.title)
        if observed.users:
            return _IN_USE_S
        if not observed.roles:
            self.standings.forget(scene.title)
            if not await hands.broom.clear():
                return _STARTING_S
            await self._volumes.follow(scene.key, None, in_use=bool(observed.users))
            await self._let_go(scene)
            return None
        await hands.end(teardown_steps(observed).stop)
        return _AGAIN_S

    async def _say(
        self, scene: Scene, planned: Plan, observed: Observed, now: datetime, faults: list[HeadraceError]
    ) -> None:
        with _noting(faults) as volume:
            await self._volumes.follow(scene.key, planned.volume, in_use=bool(observed.users))
        if volume.fault is not None:
            planned = _not_yet_gone(scene, planned)
        with _noting(faults):
            await self._say_of_dataset(scene, planned)
        with _noting(faults):
            await self._say_of_runtimes(scene, planned, now)
        if scene.dataset is not None:
            for each in (*scene.runtimes.values(), *scene.operations):
                with _noting([]):
                    await self.voice.belong(each, scene.dataset)

    async def _say_of_dataset(self, scene: Scene, planned: Plan) -> None:
        if scene.dataset is not None:
            finalizers = planned.finalizers.dataset
            await self.voice.say(scene.dataset, planned.dataset_status, planned.events, finalizers)

    async def _say_of_runtimes(self, scene: Scene, planned: Plan, now: datetime) -> None:
        runtime = scene.runtime
        if runtime is None:
            return
        await self.voice.say(runtime, planned.runtime_status, planned.events, planned.finalizers.runtime)
        for spare in scene.runtimes.values():
            if spare is not runtime:
                other = plan_spare(spare, runtime, now)
                await self.voice.say(spare, other.runtime_status, other.events, other.finalizers.runtime)

    async def _refuse(self, scene: Scene, error: HeadraceError) -> None:
        """A declaration that the API server took and that makes no sense: whoever looks at it is told."""
        _log.warning("dataset/%s: %s", scene.title, error)
        await self._tell(scene, _REFUSED, error)

    async def _tell_dataset(self, scene: Scene, event: Event) -> None:
        content = self.mirror.get("Dataset", *scene.key)
        if content is not None:
            await self.voice.tell(content, "Dataset", event)

    async def _let_go(self, scene: Scene) -> None:
        """Nothing is left of the dataset: runtimes of it that make no sense may go, if that was asked for."""
        for kind, content in scene.leaving_runtimes:
            await self.voice.let_go(kind, content)

    async def _tell(self, scene: Scene, reason: str, error: HeadraceError) -> None:
        for kind in ("Dataset", "AlluxioRuntime", "JindoRuntime"):
            content = self.mirror.get(kind, *scene.key)
            if content is not None:
                await self.voice.tell(content, kind, Event(kind, EventType.WARNING, reason, str(error)))


@dataclass(slots=True)
class _Part:
    """How one part of a look went."""

    fault: HeadraceError | None = None


@contextmanager
def _noting(faults: list[HeadraceError]) -> Iterator[_Part]:
    """Goes on after an error of Headrace, which is noted."""
    part = _Part()
    try:
        yield part
    except HeadraceError as error:
        _log.debug("a part of a look failed: %s", error)
        part.fault = error
        faults.append(error)


def _not_yet_gone(scene: Scene, planned: Plan) -> Plan:
    """The plan while something of it is still there: our finalizers stay."""
    runtime = (FINALIZERS[kind_of(scene.runtime).name],) if scene.runtime else ()
    return replace(planned, finalizers=Finalizers((FINALIZERS["Dataset"],), runtime))
