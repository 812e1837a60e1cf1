"""One worker as the master knows it, and the lives that it leads.

joining → active → draining → drained         asked for, or wished by the worker itself
          active ⇄ suspect → dead             silent; a suspect stays in the view
          anything → left                     it said that it ends

A worker that is dead, drained or left begins a new life by a heartbeat (the latter two: of a new process).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.membership.facts import MemberFacts
from headrace.membership.policy import Policy
from headrace.membership.view import ViewMember


class WorkerState(StrEnum):
    """The state of a worker in its life."""

    JOINING = "joining"
    ACTIVE = "active"
    SUSPECT = "suspect"
    DRAINING = "draining"
    DRAINED = "drained"
    LEFT = "left"
    DEAD = "dead"


LISTED = frozenset((WorkerState.ACTIVE, WorkerState.SUSPECT, WorkerState.DRAINING))
"""States in which a worker is in the view."""
GONE = frozenset((WorkerState.DRAINED, WorkerState.LEFT, WorkerState.DEAD))


@dataclass(frozen=True, slots=True)
class Worker:
    """The facts about one worker. Times are seconds of the master's clock and do not survive its process."""

    facts: MemberFacts
    incarnation: int
    state: WorkerState
    weight: int
    heard_s: float
    """When it was last heard; in the future during a grace period."""
    asked_s: float
    """How often it was last asked to report."""
    joined_epoch: int = 0
    """The first epoch that listed it in this life; 0 before that."""
    born_s: float = 0.0
    """When this life began."""
    hasty_lives: int = 0
    """How many lives in a row were short."""
    held_until_s: float = 0.0
    """It is not listed before."""

    @property
    def is_listed(self) -> bool:
        """True if readers are to see it."""
        return self.state in LISTED

    def with_state(self, state: WorkerState) -> Worker:
        """The same worker in another state."""
        return replace(self, state=state)

    def reborn(self, now_s: float, policy: Policy) -> Worker:
        """A new life: readers are told that what it has now is not what it had. Short lives earn a waiting time."""
        hasty = self.hasty_lives + 1 if now_s - self.born_s < policy.calm_s else 0
        # 2³² times any hold is beyond every limit; more would overflow.
        wait_s = min(policy.hold_s * 2 ** min(hasty - 1, 32), policy.most_hold_s) if hasty else 0.0
        return replace(
            self,
            state=WorkerState.JOINING,
            joined_epoch=0,
            born_s=now_s,
            hasty_lives=hasty,
            held_until_s=now_s + wait_s,
        )

    def settled(self, now_s: float) -> Worker:
        """The same worker after what its own words and the time make of its state."""
        state = self.state
        if state is WorkerState.JOINING and self.facts.ready and now_s >= self.held_until_s:
            state = WorkerState.ACTIVE
        if state in (WorkerState.ACTIVE, WorkerState.SUSPECT) and self.facts.leaving:
            state = WorkerState.DRAINING
        return self if state is self.state else self.with_state(state)

    def listing(self) -> ViewMember | None:
        """Its row in the view, or `None`."""
        if not self.is_listed:
            return None
        socket = self.facts.lease_socket
        return ViewMember(
            id=self.facts.id,
            address=self.facts.address,
            node=self.facts.node,
            weight=self.weight,
            state="draining" if self.state is WorkerState.DRAINING else "active",
            joined_epoch=self.joined_epoch,
            cached_bytes=self.facts.cached_bytes,
            lease_socket=None if socket is None else str(socket),
        )
