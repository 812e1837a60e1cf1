"""Messages between the command line and the supervisor. docs/format/local-api.md describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from headrace.errors import CLASSES, EngineError, HeadraceError
from headrace.process.deferred_model import DeferredModel

MAGIC = "headrace-local"
VERSION = 1
MOST_OBJECTS = 20_000
MOST_NODES = 250
MOST_TAINTS = 100


class Message(DeferredModel):
    """A value on its way. Fields that a newer release adds are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Fault(Message):
    """An error that travels: its kind decides the class on the other side."""

    kind: str = "Unexpected"
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, error: HeadraceError) -> Fault:
        """The fault of an error."""
        return cls(kind=error.kind, message=error.message[:100_000], hint=error.hint and error.hint[:2000])

    def as_error(self) -> HeadraceError:
        """The error again."""
        return CLASSES.get(self.kind, EngineError).of(self.message, hint=self.hint)


class Named(Message):
    """The key of an object."""

    kind: str = Field(max_length=64)
    namespace: str = Field(default="", max_length=63)
    name: str = Field(max_length=253)


class Hello(Message):
    """The supervisor's name and version."""

    magic: str = MAGIC
    version: int = VERSION
    pid: int
    instance: str
    release: str


class Declaration(Message):
    """Objects that somebody applies or creates. `verb` says what becomes of those that are there."""

    verb: Literal["apply", "create"]
    namespace: str = Field(default="default", max_length=63)
    objects: tuple[dict[str, Any], ...] = Field(max_length=MOST_OBJECTS)


class Deletion(Message):
    """Objects that shall go, and with them what they own, unless that is to be left as orphans."""

    cascade: Literal["background", "orphan"] = "background"
    objects: tuple[Named, ...] = Field(max_length=MOST_OBJECTS)


class Scaling(Message):
    """The number of replicas that a runtime shall have."""

    object: Named
    replicas: int = Field(ge=0, le=10_000)
    current: int | None = None


class Patch(Message):
    """A JSON merge patch of one object."""

    object: Named
    patch: dict[str, Any]


class Outcome(Message):
    """The outcome of one object: the deed, or the fault."""

    object: Named
    deed: str = ""
    fault: Fault | None = None
    document: dict[str, Any] | None = None


class Outcomes(Message):
    """In the order of the request."""

    outcomes: tuple[Outcome, ...]


class Listing(Message):
    """Objects at one moment."""

    resource_version: int
    items: tuple[dict[str, Any], ...]


class Watched(Message):
    """A line of a watch."""

    type: str
    object: dict[str, Any]


class EventLine(Message):
    """An event as it is shown."""

    object: Named
    type: str
    reason: str
    message: str
    source: str
    count: int
    first: str
    last: str


class EventLines(Message):
    """The latest last."""

    events: tuple[EventLine, ...]


class TaintLine(Message):
    """A taint of a node. To take one away, no effect means all of the key."""

    key: str = Field(max_length=317)
    value: str = Field(default="", max_length=63)
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class NodeLine(Message):
    """A virtual node."""

    name: str
    address: str
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    taints: tuple[TaintLine, ...] = ()
    created: str = ""
    namespace: str | None = None
    link_bits_per_s: int | None = None
    state: str = ""


class RoleLine(Message):
    """A process of a dataset."""

    id: str
    namespace: str
    dataset: str
    role: str
    node: str
    state: str
    health: str = ""
    message: str = ""
    pid: int | None = None
    since: str = ""
    restarts: int = 0


class TroubleLine(Message):
    """A condition of an object that is not as it should be."""

    object: Named
    condition: str
    reason: str = ""
    message: str = ""
    since: str = ""


class RunDataset(Message):
    """A dataset that a program wants, and where its files shall appear; empty: where the node has them."""

    namespace: str = Field(max_length=63)
    name: str = Field(max_length=253)
    path: str = Field(default="", max_length=1024)


class RunWish(Message):
    """A program that is about to run: the process that becomes it, and what people shall call it."""

    datasets: tuple[RunDataset, ...] = Field(min_length=1, max_length=64)
    node: str | None = Field(default=None, max_length=64)
    pid: int = Field(ge=1)
    started_ticks: int = Field(ge=0)
    program: str = Field(max_length=128)


class RunPlace(Message):
    """The place of a dataset's files on the node, and where they shall appear."""

    name: str
    mountpoint: str
    path: str = ""


class RunState(Message):
    """How far it is: what is waited for, or nothing. `network` is the namespace of the node, if it has one."""

    id: str
    node: str
    address: str
    network: str | None = None
    mark: str
    waiting: str = ""
    places: tuple[RunPlace, ...] = ()


class RunEnd(Message):
    """A program that will not begin."""

    id: str = Field(max_length=64)


class ConsumerLine(Message):
    """Somebody who uses datasets."""

    user: str
    node: str
    datasets: tuple[str, ...]


class BackendStatus(Message):
    """How the local backend does. A `pid` of 0: its supervisor does not run, and this is what its files tell."""

    pid: int
    instance: str
    since: str
    folder: str
    network: str
    nodes: tuple[NodeLine, ...]
    roles: tuple[RoleLine, ...]
    objects: dict[str, int]
    troubles: tuple[TroubleLine, ...] = ()
    release: str = ""
    uses: tuple[ConsumerLine, ...] = ()


class NodesWish(Message):
    """The nodes that there shall be at least: `up` and its words."""

    count: int = Field(default=1, ge=1, le=MOST_NODES)
    labels: dict[str, str] = Field(default_factory=dict)
    labels_of: dict[str, dict[str, str]] = Field(default_factory=dict)
    taints: tuple[TaintLine, ...] = Field(default=(), max_length=MOST_TAINTS)
    taints_of: dict[str, tuple[TaintLine, ...]] = Field(default_factory=dict)
    link_bits_per_s: int | None = None
    plain: bool = False


class NodeChange(Message):
    """A change of one node. A label or annotation of `None` is taken away."""

    name: str = Field(max_length=253)
    labels: dict[str, str | None] = Field(default_factory=dict)
    annotations: dict[str, str | None] = Field(default_factory=dict)
    taints: tuple[TaintLine, ...] = Field(default=(), max_length=MOST_TAINTS)
    untaints: tuple[TaintLine, ...] = Field(default=(), max_length=MOST_TAINTS)


class SupervisorSpec(Message):
    """The settings of a supervisor at its start."""

    folder: Path
    nodes: NodesWish
    release: str
    idle: bool = False
    """Declarations are kept, and nothing is run for them; nor is it started anew when it is killed."""
    restarts: int = 0
    """How often one was started anew without one of them having lived for a while."""
