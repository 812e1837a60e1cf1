"""One dataset in one pass: what was declared, and the calls by which a backend observes, writes and acts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from headrace.api.dataset import Dataset, DatasetStatus
from headrace.api.kinds import OPERATIONS, Operation, Runtime
from headrace.api.operations import OperationStatus
from headrace.api.runtime_parts import RuntimeStatus
from headrace.api.writing import part_content
from headrace.errors import HeadraceError
from headrace.plan.dataset_events import Event
from headrace.plan.declared import Declared
from headrace.plan.observed import ConsumerFacts, Observed, OtherWorker
from headrace.plan.operation_inputs import JobFacts, OperationInputs
from headrace.plan.outcome import Plan
from headrace.plan.volume import Volume
from headrace.work_queue import Dataset as Key

Thing = Dataset | Runtime | Operation
Status = DatasetStatus | RuntimeStatus | OperationStatus

_Task_co = TypeVar("_Task_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Subject:
    """One object. Another one of its name, which has another `uid`, is not meant."""

    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, thing: Thing) -> Subject:
        """The object as it was read."""
        metadata = thing.metadata
        return cls(thing.kind, metadata.namespace or "default", metadata.name, metadata.uid or "")


@dataclass(frozen=True, slots=True)
class Refused:
    """An object that was taken in and makes no sense, and why.

    `told_of` is the object whose status says it (that of a runtime says its dataset), with that `status`. Of an
    operation, `operation` is enough to end its work. A Dataset that refers to one which makes no sense is refused, too.
    """

    subject: Subject
    fault: HeadraceError
    is_leaving: bool = False
    told_of: Subject | None = None
    status: Mapping[str, Any] | None = None
    operation: Operation | None = None


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declarations of one name. `declared` is `None` when neither a dataset nor a runtime is there.

    `spares` are runtimes of its name that do not serve it; `is_leaving`: the deletion of the dataset or of a runtime
    was asked for.
    """

    title: str
    declared: Declared | None
    spares: tuple[Runtime, ...] = ()
    operations: tuple[Operation, ...] = ()
    refused: tuple[Refused, ...] = ()
    is_leaving: bool = False

    @property
    def is_held(self) -> bool:
        """True when dataset or runtime makes no sense: what runs goes on as it is, unless all is to go anyway."""
        return not self.is_leaving and any(each.subject.kind not in OPERATIONS for each in self.refused)


@dataclass(frozen=True, slots=True)
class Statement:
    """The new status of one object, events, and our finalizers. Status or finalizers of `None` stay as they are."""

    about: Subject
    status: Mapping[str, Any] | None = None
    events: tuple[Event, ...] = ()
    finalizers: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, thing: Thing, status: Status | None, events: tuple[Event, ...], finalizers: tuple[str, ...]
    ) -> Statement:
        """The statement of a plan."""
        return cls(Subject.of(thing), None if status is None else part_content(status), events, finalizers)


class World(Protocol[_Task_co]):
    """One dataset in one pass. Used by that pass alone. Whatever is cut off is done by the next one."""

    @property
    def declarations(self) -> Declarations:
        """The declarations when the pass began."""

    @property
    def outdated(self) -> tuple[type[Exception], ...]:
        """The faults that say that an object was written since it was read."""

    @property
    def starting_s(self) -> float:
        """Seconds until a role that starts, or files that are being cleared, are looked at again."""

    async def observe(self) -> Observed:
        """Everything that is known at this moment, but for other datasets' workers."""

    async def users(self) -> tuple[ConsumerFacts, ...]:
        """The users of the dataset, looked at anew: no answer is older than the question."""

    def others(self) -> Mapping[str, tuple[OtherWorker, ...]]:
        """Workers of other datasets, by node."""

    def reserve(self, plan: Plan | None) -> None:
        """Notes the nodes that were planned for its workers, so that other passes see them; `None`: it is gone."""

    async def clear(self) -> bool:
        """Takes away the files of a dataset that has no roles any more; true when nothing of them is left."""

    async def follow_volume(self, volume: Volume | None, *, in_use: bool, closes: bool) -> None:
        """Makes the volume and its claim, or takes them away; never those that a person made under these names."""

    async def write(self, statements: Iterable[Statement]) -> None:
        """Writes these, and makes each object go with its dataset, as in Fluid. An object may be gone meanwhile.

        Raises an `ExceptionGroup` where some are refused: the others are written all the same.
        """

    async def take(self, plan: Plan) -> float | None:
        """Takes all steps that may be taken now; seconds until something of it is to be seen, or done again."""

    def inputs(self, operation: Operation, job: JobFacts | None, hindrance: str) -> OperationInputs:
        """The inputs of an operation's plan, of what was observed last."""

    def task(self, operation: Operation, run: str) -> _Task_co:
        """A run of an operation, for its driver."""

    async def delete(self, operation: Operation) -> None:
        """Deletes an operation that nobody needs any more."""

    async def finish(self) -> None:
        """Tells others what may matter to them, at the end of a pass."""


class Backend(Protocol[_Task_co]):
    """Reads what is declared for a dataset."""

    async def begin(self, key: Key, now: datetime) -> World[_Task_co]:
        """The world of one pass."""
