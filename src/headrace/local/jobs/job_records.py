"""The record of a job: enough for any supervisor to go on with it. Holds no value of a secret variable and no
content of a configuration file; docs/format/local-jobs.md describes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from pydantic import ConfigDict, Field

from headrace.jobs.data_cost import Metering
from headrace.jobs.spec import JobSpec, RoleName
from headrace.local.processes.role_processes import TRAINING_PREFIX
from headrace.process.deferred_model import DeferredModel

MOST_EVENTS = 100


class Stage(StrEnum):
    """The stage of a job. Each pass brings it to the next stage at most."""

    WAITING = "waiting"
    """For its data to be warm, and for nodes."""
    PREPARING = "preparing"
    """It has nodes; its data is brought there."""
    STARTING = "starting"
    RUNNING = "running"
    CLOSING = "closing"
    """It is decided how this attempt has ended; what still runs of it is being ended."""
    RELEASING = "releasing"
    """Nothing of it runs; it gives up its data, and what is secret."""
    PAUSED = "paused"
    """It has failed and is tried again soon."""
    ENDED = "ended"

    @property
    def has_ended(self) -> bool:
        """Nothing more is done for the job."""
        return self is Stage.ENDED


class InstanceState(StrEnum):
    """How an instance stands, in the words that are shown."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TERMINATED = "TERMINATED"
    """It was ended with its job, without a fault of its own."""

    @property
    def has_ended(self) -> bool:
        """It runs no more, and will not."""
        return self not in (InstanceState.PENDING, InstanceState.RUNNING)


class _Kept(DeferredModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Verdict(_Kept):
    """How an attempt has ended."""

    succeeded: bool
    reason: str = ""
    exit_code: int | None = None
    is_final: bool = False
    """Trying again would not help, or is not wanted."""


class Instance(_Kept):
    """One process of an attempt."""

    name: str
    role: RoleName
    index: int
    node: str
    address: str
    port: int = 0
    """Where it listens for the others; 0: nowhere that we know of."""
    gpus: int = 0
    is_chief: bool = False
    created: datetime
    started: datetime | None = None
    state: InstanceState = InstanceState.PENDING
    exit_code: int | None = None
    reason: str = ""
    starts: int = 0
    """How often it was tried to start the process."""


class Happening(_Kept):
    """Something that happened to a job, or to an instance of it."""

    at: datetime
    type: str
    reason: str
    message: str
    instance: str = ""


class JobRecord(_Kept):
    """One job. `spec` is without secrets; its nodes are those of its instances."""

    uid: str
    spec: JobSpec
    created: datetime
    search_path: str = ""
    """The PATH of whoever submitted it."""
    stage: Stage = Stage.WAITING
    attempt: int = 0
    """Counts from 1; 0: it was never placed."""
    instances: tuple[Instance, ...] = ()
    """Of this attempt."""
    verdict: Verdict | None = None
    paused_until: datetime | None = None
    reason: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    metering: Metering = Field(default_factory=Metering)
    """What its data cost."""
    happenings: tuple[Happening, ...] = ()
    is_leaving: bool = False
    """Its deletion was asked for."""

    @property
    def run(self) -> str:
        """Names the attempt, so that what another attempt left is never taken for its own."""
        return f"{self.uid}-{self.attempt}"

    @property
    def title(self) -> str:
        """`namespace/name`."""
        return f"{self.spec.namespace}/{self.spec.name}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes, each once."""
        return tuple(dict.fromkeys(each.node for each in self.instances))

    @property
    def chief(self) -> Instance | None:
        """The instance whose end is the job's."""
        return next((each for each in self.instances if each.is_chief), None)

    def find(self, name: str) -> Instance | None:
        """An instance of this attempt."""
        return next((each for each in self.instances if each.name == name), None)

    def told(self, *happened: Happening) -> JobRecord:
        """The record with what has happened; the oldest makes room."""
        return self.changed(happenings=(*self.happenings, *happened)[-MOST_EVENTS:])

    def changed(self, **values: object) -> JobRecord:
        """The record with other values."""
        return self.model_copy(update=values)


def role_id(uid: str, instance: str) -> str:
    """The name of an instance's process among all roles of the backend."""
    return f"{role_prefix(uid)}{instance}"


def role_prefix(uid: str) -> str:
    """The prefix of the names of all processes of a job."""
    return f"{TRAINING_PREFIX}{uid[:12]}:"


def alive(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    """The instances that have not ended."""
    return tuple(each for each in instances if not each.state.has_ended)
