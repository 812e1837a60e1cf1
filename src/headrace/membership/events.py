"""The events of a cluster's membership."""

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
    view it works by, `known_members` how many that view lists, and `joined_epoch` what it says of the worker; 0 for
    none of them. `draining` is whether its process was told to hand over what it has. A master that lost its state
    learns all of it.
    """

    facts: MemberFacts
    incarnation: int = Field(ge=0, lt=1 << 63)
    known_epoch: int = Field(default=0, ge=0, le=MOST_EPOCH)
    joined_epoch: int = Field(default=0, ge=0, le=MOST_EPOCH)
    known_members: int = Field(default=0, ge=0, le=MOST_EPOCH)
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Followed:
    """Somebody who is no worker goes by a view of this epoch."""

    epoch: int


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


Event = Heartbeat | Followed | DrainAsked | DrainCancelled | Drained | Left | Ticked
