"""A backend without processes: several datasets on a few nodes, looked at one at a time as the local backend does it.

Each look sees the world, plans, says and takes steps; it may be cut off after any step, as a killed supervisor's is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from planned import START, World, leaving

from headrace.local.processes.role_processes import RoleOrder, RoleRecord
from headrace.local.reconcile.reservations import Reservations
from headrace.plan.observed import (
    ConsumerFacts,
    Node,
    Observed,
    OtherWorker,
    RoleFacts,
    RoleState,
    SecretFacts,
)
from headrace.plan.outcome import Plan
from headrace.plan.plan import plan
from headrace.plan.roles import Role
from headrace.plan.steps import Steps, teardown_steps

Key = tuple[str, str]
MOST_LOOKS = 200
_MOVING = {RoleState.STARTING, RoleState.DRAINING}


class NeverQuietError(AssertionError):
    """The world goes on changing though nothing happens to it."""


@dataclass
class SimulatedDataset:
    """One name in one namespace: what is declared, who uses it, and its world of processes."""

    key: Key
    world: World
    used: frozenset[str] = frozenset()
    frozen: set[str] = field(default_factory=set)
    last: Plan | None = None

    @property
    def title(self) -> str:
        return "/".join(self.key)

    @property
    def roles(self) -> dict[str, RoleFacts]:
        """What runs, by id."""
        return {facts.id: facts for facts in self.world.seen.roles}

    def nodes_of(self, kind: str) -> set[str | None]:
        return {facts.node for facts in self.world.seen.roles if facts.role == kind}


class SimulatedBackend:
    """Declarations of people on one side, processes on the other."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self.now = START
        self.secrets: dict[str, dict[str, SecretFacts]] = {}
        self.datasets: dict[Key, SimulatedDataset] = {}
        self._reservations = Reservations()

    def declare(self, key: Key, dataset: Any, runtime: Any) -> None:
        """Makes objects of a name; what there is of it stays as it is."""
        there = self.datasets.setdefault(key, SimulatedDataset(key, World(None, None, self.nodes)))
        there.world.dataset = there.world.dataset or dataset
        there.world.runtime = there.world.runtime or runtime

    def delete(self, key: Key, which: str) -> None:
        """Asks for the deletion of the `dataset` or the `runtime`."""
        world = self.datasets[key].world
        thing = getattr(world, which)
        if thing is not None and thing.metadata.deletion_timestamp is None:
            setattr(world, which, leaving(thing, self.now))

    def restart(self) -> None:
        """What the supervisor only remembers is lost."""
        self._reservations = Reservations()

    def settle(self, ordered: Callable[[list[Key]], list[Key]] = sorted) -> None:
        """Looks at everything in turn until nothing moves. Raises `NeverQuietError`."""
        for _ in range(MOST_LOOKS):
            before = self._picture()
            for key in ordered(list(self.datasets)):
                self.reconcile(key)
            self._live()
            if before == self._picture() and not self._moving():
                return
        raise NeverQuietError(f"after {MOST_LOOKS} rounds: {self._picture()}")

    def reconcile(self, key: Key, cut_after: int | None = None) -> None:
        """One look, which says, and takes as many steps as it comes to."""
        there = self.datasets[key]
        world = there.world
        self._see(there)
        if world.dataset is None and world.runtime is None:
            self._reservations.forget(there.title)
            self._take(there, teardown_steps(world.seen), {}, cut_after)
            if not world.seen.roles:
                del self.datasets[key]
            return
        made = plan(world.declared, world._observed(), self.now)
        there.last = made
        self._reservations.note(there.title, made)
        self._write(there, made)
        self._take(there, _with_revived(made, world.seen), {role.id: role for role in made.roles}, cut_after)

    def _see(self, there: SimulatedDataset) -> None:
        there.world.now = self.now
        users = [
            ConsumerFacts("process 7 (train)", node) for node in sorted(there.used & there.nodes_of("mount"))
        ]  # type: ignore[type-var]
        there.world.see(
            nodes=self.nodes,
            secrets=self.secrets.get(there.key[0], {}),
            users=tuple(users),
            others=self._others(there),
        )

    def _others(self, there: SimulatedDataset) -> Mapping[str, tuple[OtherWorker, ...]]:
        exclusive = frozenset(other.title for other in self.datasets.values() if self.is_exclusive(other.key))
        return self._reservations.others(there.title, self._worker_records(), exclusive)

    def _worker_records(self) -> list[RoleRecord]:
        return [
            RoleRecord(RoleOrder(facts.id, *there.key, "worker", facts.node or "", (), ""))
            for there in self.datasets.values()
            for facts in there.world.seen.roles
            if facts.role == "worker"
        ]

    def is_exclusive(self, key: Key) -> bool:
        there = self.datasets.get(key)
        dataset = there.world.dataset if there else None
        return dataset is not None and dataset.spec.placement != "Shared"

    def _write(self, there: SimulatedDataset, made: Plan) -> None:
        world = there.world
        world._write(made)
        if world.dataset is not None and not made.finalizers.dataset:
            world.dataset = None
        if world.runtime is not None and not made.finalizers.runtime:
            world.runtime = None

    def _take(
        self, there: SimulatedDataset, steps: Steps, roles: Mapping[str, Role], most: int | None
    ) -> None:
        """The steps in the order of the local backend, each whole or not at all."""
        each = [Steps(stop=(role,)) for role in steps.stop] + [Steps(drain=(role,)) for role in steps.drain]
        each += [Steps(replace=(role,)) for role in steps.replace]
        each += [Steps(start=(role,)) for role in steps.start]
        for step in each[:most]:
            if step.stop:
                there.frozen -= set(step.stop)
            started = (*step.replace, *step.start)
            there.frozen -= set(started)
            if set(started) <= roles.keys():
                there.world._take(_StepsAlone(tuple(roles.values()), step))  # type: ignore[arg-type]
            else:
                # Plans that hold name no roles: what ran runs on as it was.
                there.world.set_state(started[0], RoleState.STARTING)

    def _live(self) -> None:
        """Time passes: what was started becomes ready, unless it is frozen."""
        self.now += timedelta(seconds=1)
        for there in self.datasets.values():
            there.world.now = self.now
            still = {role: facts for role, facts in there.roles.items() if role in there.frozen}
            there.world._live()
            for role_id, facts in still.items():
                there.world._replace(role_id, **dataclasses.asdict(facts))

    def _moving(self) -> bool:
        return any(
            facts.state in _MOVING and role not in there.frozen
            for there in self.datasets.values()
            for role, facts in there.roles.items()
        )

    def _picture(self) -> Any:
        return {
            key: (
                frozenset(
                    (role, facts.state, facts.version, facts.node) for role, facts in there.roles.items()
                ),
                there.world.dataset,
                there.world.runtime,
            )
            for key, there in self.datasets.items()
        }


@dataclass(frozen=True)
class _StepsAlone:
    """As much of a plan as taking a step needs."""

    roles: tuple[Role, ...]
    steps: Steps


def _with_revived(made: Plan, seen: Observed) -> Steps:
    """The steps, and what failed and is to run as it was: the backend starts it anew by itself."""
    steps = made.steps
    about = {*steps.start, *steps.replace, *steps.drain, *steps.stop}
    wanted = {role.id for role in made.roles}
    again = [
        facts.id
        for facts in seen.roles
        if facts.state is RoleState.FAILED and facts.id not in about and (made.holds or facts.id in wanted)
    ]
    return dataclasses.replace(steps, start=(*steps.start, *again))
