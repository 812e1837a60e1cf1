"""The next steps of a backend from what runs to what is to run: a few at a time, so that reads go on.

Starting: master, workers, mounts. Replacing: the master, and nobody who serves before it is ready again; then mounts
that nobody uses, and one worker after the other, all others being ready, once the storage lets the master in; after a
change of the origins or of the token all workers at once, since old and new ones do not understand each other; then
one used mount after the other, where readers only wait for it. Ending: mounts, workers, master. A worker that is not
wanted hands its blocks over first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.plan.mounting import used_nodes
from headrace.plan.observed import DataFacts, Observed, RoleFacts, RoleState
from headrace.plan.roles import MASTER_ID, MOUNT_PREFIX, Role, RoleKind, tree_version, worker_index

DRAIN_DEADLINE = timedelta(minutes=10)
_ORDER = (RoleKind.MOUNT, RoleKind.WORKER, RoleKind.MASTER)


@dataclass(frozen=True, slots=True)
class Steps:
    """Ids of roles to start, to start anew in their new version, to drain, and to end."""

    start: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    cuts_readers: bool = False
    """Mounts end although somebody reads: who reads has no right to it any more."""

    def __bool__(self) -> bool:
        return bool(self.start or self.replace or self.drain or self.stop)

    def without(self, role_ids: Iterable[str]) -> Steps:
        """The same, and nothing is done to these roles."""
        left = frozenset(role_ids)
        parts = (self.start, self.replace, self.drain, self.stop)
        start, replace, drain, stop = (tuple(each for each in part if each not in left) for part in parts)
        return Steps(start, replace, drain, stop, self.cuts_readers)

    @property
    def ends_mounts(self) -> bool:
        """True when a mount is to be ended, or to be started anew."""
        return any(role_id.startswith(MOUNT_PREFIX) for role_id in (*self.stop, *self.replace))


NO_STEPS = Steps()


@dataclass(frozen=True, slots=True)
class Progress:
    """Roles that are to run, beside what runs. `borrows`: mounts alone, of another dataset's cluster."""

    roles: tuple[Role, ...]
    observed: Observed
    listed: bool
    borrows: bool = False

    @property
    def facts(self) -> Mapping[str, RoleFacts]:
        """The facts of the running roles, by id."""
        return {facts.id: facts for facts in self.observed.roles if facts.state is not RoleState.ENDED}

    def is_ready(self, role: Role) -> bool:
        """True for a role that runs where and as it should, and is ready."""
        facts = self.facts.get(role.id)
        return facts is not None and facts.state is RoleState.READY and _is_there(role, facts)

    def are_ready(self, roles: Iterable[Role]) -> bool:
        """True when all of these are. One whose machine is away holds nobody up."""
        sound = {node.name for node in self.observed.nodes if node.is_ready}
        return all(self.is_ready(role) for role in roles if role.node in sound)

    def of(self, kind: RoleKind) -> tuple[Role, ...]:
        """The roles of one kind."""
        return tuple(role for role in self.roles if role.kind is kind)


def next_steps(progress: Progress, now: datetime) -> Steps:
    """The steps that may be taken now."""
    leaving = _leaving(progress)
    drain, stop = _parted(leaving, progress, now)
    return Steps(
        start=_to_start(progress),
        replace=_to_replace(progress),
        drain=drain,
        stop=stop + _ended(progress),
    )


def teardown_steps(observed: Observed) -> Steps:
    """The next roles to end when nothing is to run any more."""
    for kind in _ORDER:
        ids = tuple(sorted(facts.id for facts in observed.roles if facts.role == kind))
        if ids:
            return Steps(stop=ids)
    return Steps(stop=tuple(sorted(facts.id for facts in observed.roles)))


def _to_start(progress: Progress) -> tuple[str, ...]:
    facts = progress.facts
    missing = [role for role in progress.roles if role.id not in facts]
    master_ready = any(map(progress.is_ready, progress.of(RoleKind.MASTER)))
    worker_ready = any(
        facts[role.id].state is RoleState.READY for role in progress.of(RoleKind.WORKER) if role.id in facts
    )
    gates = {
        RoleKind.MASTER: True,
        RoleKind.WORKER: master_ready,
        RoleKind.MOUNT: progress.listed and (progress.borrows or (master_ready and worker_ready)),
    }
    return tuple(role.id for role in missing if gates[role.kind])


def _to_replace(progress: Progress) -> tuple[str, ...]:
    facts = progress.facts
    old = [role for role in progress.roles if role.id in facts and _is_old(role, facts[role.id])]
    if any(role.id == MASTER_ID for role in old):
        return (MASTER_ID,)
    masters = progress.of(RoleKind.MASTER)
    mounts = [role for role in old if role.kind is RoleKind.MOUNT]
    free = _free_mounts(mounts, progress)
    if masters and not all(map(progress.is_ready, masters)):
        # What a successor would run may be wrong: an image that is nowhere. Who still serves is there for the next pod.
        return tuple(each for each in free if facts[each].state is not RoleState.READY)
    workers = _workers_to_replace([role for role in old if role.kind is RoleKind.WORKER], progress)
    return workers + (free or _used_mount_to_replace(mounts, progress))


def _workers_to_replace(old: list[Role], progress: Progress) -> tuple[str, ...]:
    facts = progress.facts
    strangers = [role.id for role in old if _is_stranger(role, facts[role.id])]
    if strangers:
        return tuple(strangers)
    broken = [role.id for role in old if _is_broken(facts[role.id])]
    if broken:
        return tuple(broken)
    if _is_refused(progress.observed.data):
        return ()
    rest = [role for role in progress.of(RoleKind.WORKER) if role not in old]
    return (old[0].id,) if old and progress.are_ready(rest) else ()


def _is_broken(facts: RoleFacts) -> bool:
    """True for who is of no use to anybody. One that serves is no such worker, though its master may have begun so
    lately that it lists nobody yet: mounts go on reading from it.
    """
    return facts.state is RoleState.FAILED or not (facts.serves or facts.state is RoleState.READY)


def _is_refused(data: DataFacts | None) -> bool:
    """True when the storage refuses the master with what is declared now, or has not been asked yet: workers that read
    with what was declared before go on with it.
    """
    return data is not None and (data.is_listing or data.fault_kind == "PermissionDenied")


def _free_mounts(mounts: list[Role], progress: Progress) -> tuple[str, ...]:
    """Mounts that nobody uses, and those that can read no more anyway, as soon as the next ones can."""
    used = used_nodes(progress.observed)
    locked_out = {role.id for role in mounts if progress.facts[role.id].is_locked_out}
    if not _is_served(progress):
        mounts = [role for role in mounts if role.id not in locked_out]
    return tuple(role.id for role in mounts if role.node not in used or role.id in locked_out)


def _is_served(progress: Progress) -> bool:
    """True when a mount that is started now can read."""
    facts = progress.facts
    ready = {
        role.kind for role in progress.roles if progress.is_ready(role) and not facts[role.id].is_locked_out
    }
    return progress.listed and (progress.borrows or {RoleKind.MASTER, RoleKind.WORKER} <= ready)


def _is_stranger(role: Role, facts: RoleFacts) -> bool:
    """True for who does not understand the others: it reads another tree, or has another token."""
    return facts.is_locked_out or tree_version(facts.version) != role.tree_version


def _used_mount_to_replace(old: list[Role], progress: Progress) -> tuple[str, ...]:
    """The next mount that somebody uses: where nothing runs anyway, or where it outlives its process.

    Elsewhere it keeps its version until it is left. The readers of one node wait at a time, and for workers of today.
    """
    facts = progress.facts
    old = [role for role in old if not facts[role.id].is_locked_out]
    failed = [role.id for role in old if facts[role.id].state is RoleState.FAILED]
    if failed:
        return tuple(failed)
    kept = [role for role in old if role.node in progress.observed.keepers]
    rest = [role for role in progress.roles if role.kind is not RoleKind.MASTER and role not in old]
    return (kept[0].id,) if kept and progress.are_ready(rest) else ()


def _leaving(progress: Progress) -> list[RoleFacts]:
    """Workers that run and are not wanted, or not there; the last first."""
    wanted = {role.id: role for role in progress.roles}
    workers = [facts for facts in progress.facts.values() if worker_index(facts.id) >= 0]
    leaving = [each for each in workers if each.id not in wanted or not _is_there(wanted[each.id], each)]
    return sorted(leaving, key=lambda facts: -worker_index(facts.id))


def _parted(
    leaving: Iterable[RoleFacts], progress: Progress, now: datetime
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Workers that hand over first, and those that end at once."""
    heirs = [role for role in progress.of(RoleKind.WORKER) if progress.is_ready(role)]
    master = progress.facts.get(MASTER_ID)
    drain, stop = [], []
    for facts in leaving:
        waiting = facts.state is RoleState.DRAINING and now - facts.since < DRAIN_DEADLINE
        if not heirs or facts.state not in {RoleState.READY, RoleState.DRAINING}:
            stop.append(facts.id)
        elif facts.state is RoleState.READY and master is not None and master.state is RoleState.READY:
            drain.append(facts.id)
        elif (not waiting and _is_past(master, now)) or (facts.state is RoleState.DRAINING and not waiting):
            stop.append(facts.id)
    return tuple(drain), tuple(stop)


def _is_past(master: RoleFacts | None, now: datetime) -> bool:
    """True when no master will order a drain any more."""
    return master is not None and master.state is not RoleState.READY and now - master.since >= DRAIN_DEADLINE


def _ended(progress: Progress) -> tuple[str, ...]:
    """Mounts that are not wanted, and what has ended and is not wanted: its leftovers go."""
    wanted = {role.id for role in progress.roles}
    used = used_nodes(progress.observed)
    return tuple(
        facts.id
        for facts in progress.observed.roles
        if facts.id not in wanted
        and (facts.state is RoleState.ENDED or worker_index(facts.id) < 0)
        and not (facts.role == RoleKind.MOUNT and facts.node in used)
    )


def _is_there(role: Role, facts: RoleFacts) -> bool:
    return role.node is None or facts.node == role.node


def _is_old(role: Role, facts: RoleFacts) -> bool:
    is_other = facts.version != role.version or facts.is_locked_out
    return is_other and (_is_there(role, facts) or role.kind is not RoleKind.WORKER)
