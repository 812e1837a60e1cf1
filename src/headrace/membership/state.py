"""The state of a cluster's membership, and what one step makes of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.membership.policy import Policy
from headrace.membership.view import View
from headrace.membership.worker import Worker, WorkerState


class Level(StrEnum):
    """The reader that a notice is for."""

    INFO = "info"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for people. `worker` is the id of whom it is about."""

    level: Level
    worker: str | None
    text: str


class Order(StrEnum):
    """The order to the worker in the answer to a heartbeat."""

    SERVE = "serve"
    DRAIN = "drain"
    """Hand over what it has, then say so."""
    STOP = "stop"
    """Nothing is expected of it any more."""
    SUPERSEDED = "superseded"
    """A younger process has its name: end, and touch nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a heartbeat."""

    order: Order
    interval_s: float
    """When to report again."""
    epoch: int
    """The newest view; a worker that has an older one asks for it."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Everything that a master knows of its workers. `epoch` is the greatest that is known, 0 for none."""

    policy: Policy
    workers: Mapping[str, Worker]
    epoch: int = 0
    first_epoch: int = 1
    """That of the first view of a master that began with nothing."""
    view: View | None = None
    """What was published last. `None` when the next view is due whatever it says."""
    published_epoch: int = 0
    """That of the last view which this master has published; 0 before the first."""
    is_pending: bool = False
    """Whether a view may have to be published."""
    now_s: float = 0.0
    """The latest time that was told."""
    published_s: float = float("-inf")
    learning_until_s: float = float("-inf")
    """Until then a master that began with nothing believes what workers say of earlier views."""
    quiet_until_s: float = float("-inf")
    """No view is published before: there are workers that have not reported yet."""
    expected_epoch: int = 0
    """That of the newest view of an earlier master that somebody goes by,"""
    expected_members: int = 0
    """and how many it lists; 0 when nobody has said."""
    is_doubting: bool = False
    """Whether so many are silent that the master doubts itself."""

    @property
    def is_beginning(self) -> bool:
        """True if what earlier masters knew may not be known yet: what is here is no news for anybody."""
        return self.published_epoch == 0 or self.now_s < self.quiet_until_s

    def is_own(self, epoch: int) -> bool:
        """True if this master has published a view of that epoch."""
        return self.first_epoch <= epoch <= self.published_epoch

    def with_workers(self, *changed: Worker) -> Membership:
        """The state with these workers in place of what was known of them."""
        workers = dict(self.workers)
        is_pending = self.is_pending
        for worker in changed:
            is_pending = is_pending or _matters(workers.get(worker.facts.id), worker)
            workers[worker.facts.id] = worker
        return replace(self, workers=workers, is_pending=is_pending)

    def without(self, names: Collection[str]) -> Membership:
        """The state without workers that are not listed."""
        workers = {name: worker for name, worker in self.workers.items() if name not in names}
        return replace(self, workers=workers)

    def count(self, *states: WorkerState) -> int:
        """The number of workers in one of these states."""
        return sum(worker.state in states for worker in self.workers.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a step. If `save`, the state is to be on disk before anything else leaves the process."""

    state: Membership
    view: View | None = None
    """A new view to hand out."""
    notices: tuple[Notice, ...] = ()
    reply: Reply | None = None
    save: bool = False


def fresh(policy: Policy, now_s: float, first_epoch: int = 1) -> Membership:
    """The state of a master that never ran, or that lost its state: for a while it learns from its workers.

    `first_epoch` is to be later than all of an earlier master: a worker that never heard of those cannot tell it.
    """
    return Membership(
        policy=policy,
        workers={},
        first_epoch=first_epoch,
        now_s=now_s,
        learning_until_s=now_s + policy.grace_s,
    )


def _matters(before: Worker | None, after: Worker) -> bool:
    """Whether readers may have to know. Rows are compared as their sources, since nearly all heartbeats say nothing."""
    if before is None or before.is_listed != after.is_listed:
        return before is not None or after.is_listed
    if not after.is_listed:
        return False
    old, new = before.listing(), after.listing()
    return old is None or new is None or old.placement() != new.placement()
