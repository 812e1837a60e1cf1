"""The health of a dataset: whether it can be read, and the one reason why not; or what is wrong although it can be
read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.plan.node_names import shown_names
from headrace.plan.observed import DataFacts, Observed, RoleFacts, RoleState
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import MASTER_ID, RoleKind, worker_index

_FAULTS: Mapping[str, Reason] = {
    "PermissionDenied": Reason.ACCESS_DENIED,
    "Unreachable": Reason.BUCKET_UNREACHABLE,
    "Timeout": Reason.BUCKET_UNREACHABLE,
    "Throttled": Reason.BUCKET_UNREACHABLE,
    "NotFound": Reason.ORIGIN_MISSING,
    "NotDirectory": Reason.ORIGIN_MISSING,
    "Config": Reason.OPTION_REFUSED,
    "Unsupported": Reason.OPTION_REFUSED,
}
"""Reasons by the kind of an origin's error."""

_HOMELESS = "NoNode"
_POD_FAULTS: Mapping[str, Reason] = {_HOMELESS: Reason.NO_NODE_MATCHES, "NoImage": Reason.IMAGE_NOT_PULLED}

_MASTER_FAULTS: Mapping[str, Reason] = {**_FAULTS, **_POD_FAULTS}

_WORKER_FAULTS: Mapping[str, Reason] = {
    "NoSpace": Reason.QUOTA_LARGER_THAN_DISK,
    **_POD_FAULTS,
    "Config": Reason.OPTION_REFUSED,
    **{kind: _FAULTS[kind] for kind in ("PermissionDenied", "Unreachable")},
}

_PASSING = {
    Reason.NODES_TAKEN,
    Reason.NODES_FULL,
    Reason.NODES_NOT_READY,
    Reason.MASTER_STARTING,
    Reason.FILES_LISTING,
    Reason.WORKERS_STARTING,
}
"""What may pass without anybody, as other datasets end, nodes come back and processes start."""

_LASTING = {
    Reason.MASTER_FAILED,
    Reason.MASTER_NOT_UNDERSTOOD,
    Reason.WORKERS_FAILED,
    Reason.OPTION_REFUSED,
    Reason.ACCESS_DENIED,
    Reason.ORIGIN_MISSING,
    Reason.IMAGE_NOT_PULLED,
    Reason.QUOTA_LARGER_THAN_DISK,
    Reason.MOUNT_REFUSED,
    Reason.MOUNT_NOT_ALLOWED,
}
"""What stays until somebody puts it right."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The roles to run (`wanted`, by id) beside those that run. `was_bound`: programs may have the volume already."""

    wanted: frozenset[str]
    observed: Observed
    workers: int
    was_bound: bool
    was_listed: bool
    updating: bool = False
    lacking: Wait | None = None
    refused: Wait | None = None

    def facts_of(self, kind: RoleKind) -> tuple[RoleFacts, ...]:
        """The facts of the running and wanted roles of a kind."""
        return tuple(each for each in self.observed.roles if each.role == kind and each.id in self.wanted)

    def is_away(self, facts: RoleFacts) -> bool:
        """True for what does not answer because its node is not ready."""
        away = {node.name for node in self.observed.nodes if not node.is_ready}
        return facts.node in away and facts.state not in {RoleState.READY, RoleState.DRAINING}

    @property
    def is_placed(self) -> bool:
        """True when some worker has a node."""
        return any(worker_index(role_id) >= 0 for role_id in self.wanted)

    @property
    def is_listed(self) -> bool:
        """True when the files are known, if only from before."""
        data = self.observed.data
        return (data is not None and data.snapshot_version > 0) or self.was_listed


@dataclass(frozen=True, slots=True)
class Health:
    """`waiting` keeps the dataset from being ready; `degraded` does not."""

    waiting: Wait | None
    degraded: Wait | None

    @property
    def is_ready(self) -> bool:
        """True when programs can read."""
        return self.waiting is None


def health_of(situation: Situation) -> Health:
    """The health of a dataset whose roles are known."""
    checks = (_placed, _master, _files, _workers, _mounts)
    found = [each for each in (check(situation) for check in checks) if each]
    waiting = _workers_wanted(situation) or (
        _foremost([_broken_master(situation), *found]) if found else None
    )
    return Health(waiting, degraded_of(situation, None))


def degraded_of(situation: Situation, held: Wait | None) -> Wait | None:
    """The fault of a dataset that may be readable all the same. `held` is why a change cannot be made."""
    return held or _foremost(
        [
            _master_gone(situation),
            _origin_fault(situation.observed.data),
            _silent_origin(situation),
            situation.lacking,
            _away_workers(situation),
            _some_workers(situation),
            situation.refused,
            _some_mounts(situation),
        ]
    )


def _foremost(found: Iterable[Wait | None]) -> Wait | None:
    """The first, unless it may pass by itself and another one needs somebody: that is to be told."""
    waits = [each for each in found if each is not None]
    first = next(iter(waits), None)
    if first is None or first.reason not in _PASSING:
        return first
    return next((each for each in waits if each.reason in _LASTING), first)


def _workers_wanted(situation: Situation) -> Wait | None:
    if situation.workers:
        return None
    return wait(Reason.WORKERS_DISABLED, "the runtime asks for 0 workers")


def _placed(situation: Situation) -> Wait | None:
    placed = situation.is_placed and MASTER_ID in situation.wanted
    return situation.lacking if not placed and not situation.was_bound else None


def _master(situation: Situation) -> Wait | None:
    """Once its files are listed, a dataset is read without its master."""
    return None if situation.is_listed else _master_gone(situation)


def _broken_master(situation: Situation) -> Wait | None:
    """A master that ends again and again: whatever else is lacking, nothing goes on before it is repaired."""
    masters = situation.facts_of(RoleKind.MASTER)
    is_broken = any(_has_failed(facts) and facts.reason != _HOMELESS for facts in masters)
    return _master_gone(situation) if is_broken else None


def _has_failed(facts: RoleFacts) -> bool:
    """True for one that has ended, too."""
    return facts.state is RoleState.ENDED or _is_failing(facts)


def _is_failing(facts: RoleFacts) -> bool:
    """True for one that has failed, and for one that starts anew once more after it has failed several times."""
    is_restless = facts.state is RoleState.STARTING and bool(facts.message)
    return facts.state is RoleState.FAILED or is_restless


def _master_gone(situation: Situation) -> Wait | None:
    masters = situation.facts_of(RoleKind.MASTER)
    if any(facts.state is RoleState.READY for facts in masters):
        return None
    away = next(filter(situation.is_away, masters), None)
    if away is not None:
        return wait(Reason.NODES_NOT_READY, f"the master is on {away.node}, which is not ready")
    failed = next(filter(_has_failed, masters), None)
    if failed is None and situation.observed.master_fault:
        fault = _sentence(situation.observed.master_fault)
        return wait(
            Reason.MASTER_NOT_UNDERSTOOD, f"nothing is taken from what answers as the master: {fault}"
        )
    if failed is None:
        return wait(Reason.MASTER_STARTING, "the master is not ready yet")
    reason = _MASTER_FAULTS.get(failed.reason, Reason.MASTER_FAILED)
    return wait(reason, _failed_text("the master", failed))


def _files(situation: Situation) -> Wait | None:
    if situation.is_listed and not _lost_by_update(situation):
        return None
    return _origin_fault(situation.observed.data) or wait(
        Reason.FILES_LISTING, "the files of the dataset are being listed"
    )


def _lost_by_update(situation: Situation) -> bool:
    """True when other mounts were asked for that cannot be listed: the workers read the old ones no more."""
    data = situation.observed.data
    return situation.updating and data is not None and data.snapshot_version == 0 and bool(data.fault_kind)


def _origin_fault(data: DataFacts | None) -> Wait | None:
    if data is None or not data.fault_kind:
        return None
    reason = _FAULTS.get(data.fault_kind, Reason.MASTER_FAILED)
    return wait(reason, f"the files cannot be listed: {_sentence(data.fault_message or data.fault_kind)}")


def _silent_origin(situation: Situation) -> Wait | None:
    unanswered = situation.observed.data.unanswered if situation.observed.data else ()
    if not unanswered:
        return None
    text = f"the storage does not answer {shown_names(unanswered)}: what is not cached waits for it"
    return wait(Reason.BUCKET_UNREACHABLE, text)


def _workers(situation: Situation) -> Wait | None:
    workers = situation.facts_of(RoleKind.WORKER)
    if any(facts.state in {RoleState.READY, RoleState.DRAINING} for facts in workers):
        return None
    failed = [facts for facts in workers if _has_failed(facts)]
    fresh = [facts for facts in workers if facts.state is RoleState.STARTING and not _is_failing(facts)]
    starting = not all(map(situation.is_away, fresh))
    if situation.was_bound and not starting and (workers or not situation.is_placed):
        return wait(Reason.WORKERS_GONE, _gone_text(workers, situation.lacking))
    if failed and not starting:
        return _failed_workers(failed)
    return wait(Reason.WORKERS_STARTING, f"none of {situation.workers} workers is ready yet")


def _failed_workers(failed: list[RoleFacts], what: str = "") -> Wait:
    """Why workers failed, by the first that says why."""
    first = _telling(failed) or failed[0]
    reason = _WORKER_FAULTS.get(first.reason, Reason.WORKERS_FAILED)
    return wait(reason, what + _failed_text(first.id, first))


def _telling(facts: Iterable[RoleFacts]) -> RoleFacts | None:
    return next((each for each in facts if _is_failing(each) and each.message), None)


def _gone_text(workers: tuple[RoleFacts, ...], lacking: Wait | None) -> str:
    names = [facts.node or facts.id for facts in workers]
    if not names:
        return "all workers are gone" + (f"; {lacking.message}" if lacking else "")
    first = _telling(workers)
    why = f"; {_failed_text(first.id, first)}" if first else ""
    return f"all workers are gone, last from {shown_names(names)}{why}"


def _away_workers(situation: Situation) -> Wait | None:
    away = [facts.node or "" for facts in filter(situation.is_away, situation.facts_of(RoleKind.WORKER))]
    if not away:
        return None
    text = f"{len(away)} of {situation.workers} workers are on nodes that are not ready: {shown_names(away)}"
    return wait(Reason.NODES_NOT_READY, text)


def _some_workers(situation: Situation) -> Wait | None:
    failed = [facts for facts in situation.facts_of(RoleKind.WORKER) if _has_failed(facts)]
    if not failed:
        return None
    return _failed_workers(failed, f"{len(failed)} of {situation.workers} workers failed; ")


def _mounts(situation: Situation) -> Wait | None:
    """A mount that fails keeps others from nothing, unless there is no other."""
    mounts = situation.facts_of(RoleKind.MOUNT)
    failed = [facts for facts in mounts if _is_failing(facts)]
    return _refused(failed, len(mounts)) if failed and len(failed) == len(mounts) else None


def _some_mounts(situation: Situation) -> Wait | None:
    mounts = situation.facts_of(RoleKind.MOUNT)
    return _refused([facts for facts in mounts if _is_failing(facts)], len(mounts))


def _refused(failed: list[RoleFacts], count: int) -> Wait | None:
    if not failed:
        return None
    first = failed[0]
    what = f"{len(failed)} of {count} mounts failed; {_failed_text(f'the mount on {first.node}', first)}"
    return wait(Reason.MOUNT_REFUSED, what)


def _failed_text(what: str, facts: RoleFacts) -> str:
    where = f" on {facts.node}" if facts.node and facts.node not in what else ""
    why = facts.message or facts.reason
    return f"{what}{where} failed" + (f": {_sentence(why)}" if why else "")


def _sentence(text: str) -> str:
    """One line, without the full stop that is to follow."""
    return " ".join(text.split()).rstrip(".")[:400]
