"""The state of a job at one moment: plain values that backends fill in and layouts print."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from headrace.hit_ratio import hit_ratio
from headrace.jobs.spec import JobKind, JobSpec, RoleName


class JobPhase(StrEnum):
    """Arena's status words. SUSPENDED and QUEUING: something outside holds the job back."""

    PENDING = "PENDING"
    QUEUING = "QUEUING"
    SUSPENDED = "SUSPENDED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def has_ended(self) -> bool:
        """Nothing of it changes any more."""
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED)


@dataclass(frozen=True, slots=True)
class DataCost:
    """The cost of reading for a job: bytes by where they came from, and the time that reads were waited for."""

    origin_bytes: int
    peer_bytes: int
    local_bytes: int
    stalled_s: float
    """Seconds that reads waited, those of all readers together."""
    is_shared: bool = False
    """Other programs read through the same caches in that time: theirs is in the numbers as well."""
    is_reckoned: bool = False
    """Part of the local bytes was read by the kernel alone: sizes of files as often as they were opened."""

    @property
    def total_bytes(self) -> int:
        """All bytes that programs read."""
        return self.origin_bytes + self.peer_bytes + self.local_bytes

    @property
    def hit_ratio(self) -> float | None:
        """The part that did not come from the origin, 0 to 1; None when nothing was read."""
        return hit_ratio(self.total_bytes, self.origin_bytes)


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One process (a pod, or a local one) of a job."""

    name: str
    role: RoleName
    index: int
    status: str
    """PENDING, RUNNING, SUCCEEDED, FAILED, or Kubernetes' word for what keeps it (ImagePullBackOff)."""
    node: str = ""
    """The node's name; empty: none yet."""
    node_address: str = ""
    address: str = ""
    """Its own, if it has one."""
    created: datetime | None = None
    started: datetime | None = None
    gpus: int = 0
    is_chief: bool = False
    exit_code: int | None = None
    reason: str = ""
    """For a person: why it waits or failed."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job or an instance; `source` is `kind/name`."""

    source: str
    type: str
    at: datetime
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class JobView:
    """One job as it is now. Times are aware, in UTC."""

    name: str
    namespace: str
    kind: JobKind
    phase: JobPhase
    uid: str
    created: datetime
    started: datetime | None = None
    """When all its processes ran for the first time; waiting is not training."""
    ended: datetime | None = None
    reason: str = ""
    """For a person: why it waits or failed, and what to do."""
    priority: str = ""
    instances: tuple[InstanceView, ...] = ()
    data_cost: DataCost | None = None
    exit_code: int | None = None
    """Of the chief, once it has ended."""
    spec: JobSpec | None = None
    """None: made by another program."""
    events: tuple[JobEvent, ...] = ()
    tensorboard: str = ""

    @property
    def requested_gpus(self) -> int:
        """Of all its instances together."""
        return sum(each.gpus for each in self.instances)

    @property
    def chief(self) -> InstanceView | None:
        """The instance whose end is the job's, if there is one yet."""
        return next((each for each in self.instances if each.is_chief), None)


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A volume that `--data` may name."""

    name: str
    namespace: str
    access_modes: tuple[str, ...]
    phase: str
    created: datetime
    description: str = ""
    owner: str = ""
    is_dataset: bool = False
    cached: str = ""
    """Of a dataset: its cached percentage as `get dataset` prints it."""
    is_being_deleted: bool = False


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """The room that a node offers to jobs."""

    name: str
    gpus: int
    allocatable_gpus: int
    slots: int
    """How many MPI ranks may run there; 0: not limited."""
    ready: bool = True
    labels: dict[str, str] = field(default_factory=dict)
    address: str = ""
    role: str = ""
    """master, worker, or what else its labels say."""
    allocated_gpus: int = 0
    """Of pods that run there now, whoever made them."""
