"""The observations of a pass over a job, and the steps that may follow: plain values between deciding and doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.local.jobs.scheduler import Placement


class ProcessState(StrEnum):
    """How the process of an instance stands in this attempt."""

    ABSENT = "absent"
    """It never began: it may be started."""
    STARTING = "starting"
    UP = "up"
    """Its program runs; a worker of MPI waits for ranks."""
    ENDED = "ended"
    """It said how it ended."""
    LOST = "lost"
    """It began and is gone without a word: it was killed."""


@dataclass(frozen=True, slots=True)
class InstanceObservation:
    """One instance. `has_leftovers`: what it had started still runs without it."""

    state: ProcessState = ProcessState.ABSENT
    exit_code: int | None = None
    message: str = ""
    has_leftovers: bool = False
    is_out_of_memory: bool = False

    @property
    def runs(self) -> bool:
        """Something of it runs."""
        return self.state in (ProcessState.STARTING, ProcessState.UP) or self.has_leftovers


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The world as a job sees it at one moment."""

    instances: Mapping[str, InstanceObservation] = field(default_factory=dict)
    ready_nodes: frozenset[str] = frozenset()
    cold: str = ""
    """What the data lacks before the job may begin, in a sentence; empty: nothing."""
    placement: Placement | None = None
    """Where it would run now; asked for while it waits."""
    fault: str = ""
    """Why the last steps could not be taken, and never can; empty: they could."""
    is_released: bool = False
    """It holds no data and no secrets."""
    unmounted: str = ""
    """What keeps the data from being read on the nodes of the job; empty: nothing."""

    def of(self, name: str) -> InstanceObservation:
        """An instance; absent when nobody has seen it."""
        return self.instances.get(name, InstanceObservation())


@dataclass(frozen=True, slots=True)
class Hold:
    """Notes that the job uses its data on its nodes, so that it is mounted there and does not go away."""


@dataclass(frozen=True, slots=True)
class Start:
    """Starts the process of an instance."""

    name: str


@dataclass(frozen=True, slots=True)
class End:
    """Ends the processes of instances, with all that they started."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Gives up data and secrets; logs stay."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Takes away everything that there is of the job."""


Step = Hold | Start | End | Release | Forget
