"""What can happen to the membership of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from headrace.membership.facts import MemberFacts
from headrace.settings.model import Model

# Far beyond what a master reaches with a view a second, far below what would overflow.
MOST_EPOCH = 1 << 53


class Heartbeat(Model):
    """A worker is alive; the body of its request to the master.

    `incarnation` grows with each start of the worker's process (its start time will do). `known_epoch` is that of the
    view it works by, and `joined_epoch` what that view says of the worker, 0 for neither: a master that lost its state
    learns both.
    """

    facts: MemberFacts
    incarnation: int = Field(ge=0, lt=1 << 63)
    known_epoch: int = Field(default=0, ge=0, le=MOST_EPOCH)
    joined_epoch: int = Field(default=0, ge=0, le=MOST_EPOCH)


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """Somebody wants a worker emptied. Refused if fewer than `least_active` others would go on."""

    worker: str
    least_active: int = 1


@dataclass(frozen=True, slots=True)
class DrainCancelled:
    """A draining worker is to stay."""

    worker: str


@dataclass(frozen=True, slots=True)
class Drained:
    """A draining worker has handed over what it had."""

    worker: str


@dataclass(frozen=True, slots=True)
class Left:
    """A worker's process ends now, on its own account."""

    worker: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed. Wanted about once a second, and at least every `Policy.suspect_s`."""


Event = Heartbeat | DrainAsked | DrainCancelled | Drained | Left | Ticked
