"""The members as the master knows them: the decisions of `headrace.membership`, and what each worker has reported last.

Pure: time comes in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from headrace import membership
from headrace.control.messages import Heartbeat, WorkerState
from headrace.errors import ConfigError
from headrace.membership import MOST_EPOCH, Event, MemberFacts, Order, Outcome, Policy, View, Worker
from headrace.settings.faults import fault_text, first_fault

_UNDER_WAY_S = 1.0
"""A heartbeat may have been on its way that long, and know less than it would now."""


@dataclass(frozen=True)
class Row:
    """One worker: what was decided about it, what it said last, and when; nothing since the master began is `None`.

    `cached_bytes` may be newer than the last heartbeat.
    """

    worker: Worker
    beat: Heartbeat | None
    heard_s: float | None
    cached_bytes: int


def policy_of(*, replicas: int, heartbeat_s: float, dead_after_s: float) -> Policy:
    """The limits that follow from what can be set. Raises `ConfigError`."""
    if dead_after_s < 3 * heartbeat_s:
        raise ConfigError.of(
            f"dead_after_s ({dead_after_s:g}) is less than three times heartbeat_interval_s ({heartbeat_s:g})",
            hint="a worker may lose a heartbeat or two without being taken for dead",
        )
    return Policy(
        replicas=replicas,
        heartbeat_s=heartbeat_s,
        suspect_s=max(dead_after_s / 3, heartbeat_s * 1.25),
        dead_s=dead_after_s,
        doubt_s=4 * dead_after_s,
        grace_s=2 * dead_after_s,
        view_interval_s=min(1.0, heartbeat_s),
    )


class Roster:
    """The workers of one cluster. Each step gives an outcome: what is to be saved, told, and handed out."""

    def __init__(self, policy: Policy, now_s: float, first_epoch: int = 1) -> None:
        self._policy, self._first_epoch = policy, first_epoch
        self._state = membership.fresh(policy, now_s, first_epoch)
        self._beats: dict[str, tuple[Heartbeat, float]] = {}
        self._cached: dict[str, tuple[int, float]] = {}

    @property
    def empty_view(self) -> View:
        """The view before the first one: nobody."""
        return View(epoch=0, replicas=self._policy.replicas, members=())

    def restore(self, text: str, now_s: float) -> Outcome:
        """Takes up what `dump` gave. Raises `CorruptDataError`, `UnsupportedError` or `ConfigError`."""
        return self._kept(membership.restore(text, self._policy, now_s, self._first_epoch))

    def dump(self) -> str:
        """The state that survives a restart."""
        return membership.dump(self._state)

    def beat(self, beat: Heartbeat, now_s: float) -> Outcome:
        """Takes a heartbeat; the outcome has a reply. Raises `ConfigError` for a worker that no view may list."""
        if beat.state is WorkerState.LEFT:
            outcome = self._step(membership.Drained(worker=beat.id), now_s)
            self._beats.pop(beat.id, None)
            return outcome
        outcome = self._step(_event(beat), now_s)
        if outcome.reply is not None and outcome.reply.order is not Order.SUPERSEDED:
            self._beats[beat.id] = (beat, now_s)
        return outcome

    def note_cached(self, by_worker: Mapping[str, int], now_s: float) -> None:
        """Notes the cached bytes of workers as a load heard of them, which is newer than their heartbeats."""
        for name, cached_bytes in by_worker.items():
            if name in self._state.workers and self._cached.get(name, (None, 0.0))[0] != cached_bytes:
                self._cached[name] = (cached_bytes, now_s)

    def follow(self, epoch: int, now_s: float) -> Outcome:
        """Takes note of somebody else who goes by a view of that epoch."""
        return self._step(membership.Followed(min(epoch, MOST_EPOCH)), now_s)

    def is_news(self, view: View, known_epoch: int, now_s: float) -> bool:
        """True if a member that goes by a view of `known_epoch` is to be told this one, the last that was published."""
        return membership.is_news(self._state, view.epoch, known_epoch, now_s)

    def learns_for_s(self, now_s: float) -> float:
        """The further time that a master that began with nothing may wait for workers to report; 0 when that is
        over."""
        return max(self._state.learning_until_s - now_s, 0.0)

    def drain(self, worker: str, now_s: float) -> Outcome:
        """Orders a worker to drain. Raises `ConfigError` for an unknown one, `BusyError` when nobody would be left."""
        return self._step(membership.DrainAsked(worker=worker), now_s)

    def stay(self, worker: str, now_s: float) -> Outcome:
        """Takes the order back. Raises `ConfigError` unless it is being drained."""
        return self._step(membership.DrainCancelled(worker=worker), now_s)

    def tick(self, now_s: float) -> Outcome:
        """Time has passed."""
        outcome = self._step(membership.Ticked(), now_s)
        for worker in (self._beats.keys() | self._cached.keys()) - self._state.workers.keys():
            self._beats.pop(worker, None)
            self._cached.pop(worker, None)
        return outcome

    def rows(self) -> Iterator[Row]:
        """All workers, those that are gone for a while, too; by id."""
        for name in sorted(self._state.workers):
            beat, heard_s = self._beats.get(name, (None, None))
            worker = self._state.workers[name]
            yield Row(worker, beat, heard_s, self._cached_bytes(name, worker, heard_s))

    def _cached_bytes(self, name: str, worker: Worker, heard_s: float | None) -> int:
        told, told_s = self._cached.get(name, (0, 0.0))
        is_newer = name in self._cached and (heard_s is None or heard_s < told_s + _UNDER_WAY_S)
        return told if is_newer else worker.facts.cached_bytes

    def _step(self, event: Event, now_s: float) -> Outcome:
        return self._kept(membership.step(self._state, event, now_s))

    def _kept(self, outcome: Outcome) -> Outcome:
        self._state = outcome.state
        return outcome


def _event(beat: Heartbeat) -> membership.Heartbeat:
    facts: dict[str, Any] = {
        name: getattr(beat, name)
        for name in ("id", "address", "node", "capacity_bytes", "cached_bytes", "lease_socket")
    }
    try:
        return membership.Heartbeat(
            facts=MemberFacts(**facts),
            incarnation=beat.incarnation,
            known_epoch=beat.known_epoch,
            joined_epoch=beat.joined_epoch,
            known_members=beat.known_members,
            draining=beat.draining,
        )
    except ValidationError as error:
        first = first_fault(error)
        fault = f"{'.'.join(map(str, first['loc']))}: {fault_text(first)}"
        raise ConfigError.of(f"worker '{beat.id}' cannot be listed: {fault}") from None
