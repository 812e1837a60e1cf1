"""The state of each role of a dataset: from its process, from what the master says of it, and from its mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headrace.api.times import parse_time
from headrace.local.processes.role_processes import RoleRecord
from headrace.plan.observed import RoleFacts, RoleState

_ALONE_AFTER_S = 20.0
_OFTEN = 2
_SERVING = {"active", "suspect"}


@dataclass(frozen=True, slots=True)
class RoleFailure:
    """Why a role could not be started or did not go on: a kind of `headrace.errors`, and a sentence.

    `times` counts its failures one after another.
    """

    kind: str
    message: str
    since: datetime
    version: str = ""
    node: str | None = None
    times: int = 1


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """The results of probes: the master's status (`None`: it does not answer), mountpoints that answer, troubles by
    role."""

    status: Mapping[str, Any] | None
    mounted: frozenset[str]
    failures: Mapping[str, RoleFailure]
    master: str | None
    now: datetime


@dataclass(slots=True)
class RoleStates:
    """Remembers since when each role is as it is; what is not remembered begins now."""

    _known: dict[str, tuple[int, RoleState, datetime]] = field(default_factory=dict)

    def facts_of(self, record: RoleRecord, role_id: str, probes: ProbeResults) -> RoleFacts:
        """One role that is written down."""
        known = self._known.get(record.order.id)
        before = known[1] if known and known[0] == record.pid else None
        state = _state(record, role_id, probes, before)
        if before is not state:
            known = (record.pid, state, _since(record, state, probes.now))
            self._known[record.order.id] = known
        failure = _told(state, probes.failures.get(role_id))
        version, _, master = record.order.version.partition("@")
        # What was told of another address of the master is as old as another version.
        is_stale = bool(master) and probes.master is not None and master != probes.master
        return RoleFacts(
            id=role_id,
            role=record.order.kind,
            node=record.order.node,
            state=state,
            version=f"{version}*" if is_stale else version,
            since=known[2] if known else probes.now,
            reason=failure.kind if failure else "",
            message=failure.message if failure else "",
            serves=record.state == "running" and _is_known(record, role_id, probes),
        )

    def forget(self, order_id: str) -> None:
        """The role is gone."""
        self._known.pop(order_id, None)


def _told(state: RoleState, failure: RoleFailure | None) -> RoleFailure | None:
    """Why it has failed, or has failed so often that its next start is no news."""
    is_restless = failure is not None and state is RoleState.STARTING and failure.times >= _OFTEN
    return failure if state is RoleState.FAILED or is_restless else None


def failed_start(role_id: str, failure: RoleFailure) -> RoleFacts:
    """A role that never came to run."""
    kind = role_id.partition("-")[0]
    return RoleFacts(
        role_id,
        kind,
        failure.node,
        RoleState.FAILED,
        failure.version,
        failure.since,
        failure.kind,
        failure.message,
    )


def _state(record: RoleRecord, role_id: str, probes: ProbeResults, before: RoleState | None) -> RoleState:
    if record.state == "ended":
        # Only who was told to end, or has drained, ends without a fault.
        drained = record.order.kind == "worker" and record.exit_code == 0
        return RoleState.ENDED if drained else RoleState.FAILED
    if record.state != "running":
        return RoleState.STARTING
    if record.order.kind == "master":
        return RoleState.READY if probes.status is not None else RoleState.STARTING
    if record.order.kind == "mount":
        return RoleState.READY if record.order.node in probes.mounted else RoleState.STARTING
    return _worker_state(record, role_id, probes, before)


def _worker_state(
    record: RoleRecord, role_id: str, probes: ProbeResults, before: RoleState | None
) -> RoleState:
    started = parse_time(record.since)
    if probes.status is None:
        # It goes on without its master; how it did before is all that is known.
        alone = (probes.now - started).total_seconds() > _ALONE_AFTER_S
        return before or (RoleState.READY if alone else RoleState.STARTING)
    row = _row(record, role_id, probes.status)
    if row is None:
        return RoleState.STARTING
    if row["state"] == "draining":
        return RoleState.DRAINING
    return RoleState.READY if row["is_listed"] and row["state"] in _SERVING else RoleState.STARTING


def _row(record: RoleRecord, role_id: str, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the master says of this process, and not of one before it."""
    row = next((each for each in status["workers"] if each["id"] == role_id), None)
    return row if row and row["started_at_s"] >= parse_time(record.since).timestamp() else None


def _is_known(record: RoleRecord, role_id: str, probes: ProbeResults) -> bool:
    """True for who has told the master of itself, or is older than a start takes: the master may have just begun."""
    if (probes.now - parse_time(record.since)).total_seconds() > _ALONE_AFTER_S:
        return True
    return probes.status is not None and _row(record, role_id, probes.status) is not None


def _since(record: RoleRecord, state: RoleState, now: datetime) -> datetime:
    return parse_time(record.since) if state is RoleState.STARTING else now
