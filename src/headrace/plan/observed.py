"""The world as a backend observes it, as plain facts. Values of Secrets never stand here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from headrace.plan.policy import Policy
from headrace.plan.volume import VolumeFacts


@dataclass(frozen=True, slots=True)
class Taint:
    """A reason for keeping off a node."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Room:
    """The room for a dataset's caches on a disk or in memory: what is free, and what they hold already.

    Nodes that share a disk, as those of one machine do, say the same `id`.
    """

    id: str
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Node:
    """A machine, or what stands for one.

    `disks` says by folder what room there is. Folders that it does not name, and memory of `None`, are taken to be
    large enough. `memory_bytes` is how much memory the node has in all, if known.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_ready: bool = True
    disks: Mapping[str, Room] = field(default_factory=dict)
    memory: Room | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """A Secret without its values: its keys, each with a keyed digest that changes with its value and tells nothing."""

    digests: Mapping[str, str]

    @property
    def keys(self) -> frozenset[str]:
        """The keys that it has."""
        return frozenset(self.digests)


class ClaimState(StrEnum):
    """The state of a claim."""

    PRESENT = "present"
    PENDING = "pending"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """The volume behind a claim: `nfs://server/path` or `local:///path`, and the nodes that have it (or all)."""

    state: ClaimState
    address: str = ""
    nodes: tuple[str, ...] = ()
    message: str = ""


class RoleState(StrEnum):
    """The state of a role's process (or pod)."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """One running role. `version` is that of the role it was started from; `since` is when it came into its state.

    `reason` is a kind of `headrace.errors` where there is one, such as PermissionDenied. One that starts has it, with
    `message`, when it has ended again and again before. `is_locked_out`: it has another token than its cluster, so that
    nobody talks to it. `serves`: it answers, whether or not a master that has just begun knows it already.
    """

    id: str
    role: str
    node: str | None
    state: RoleState
    version: str
    since: datetime
    reason: str = ""
    message: str = ""
    is_locked_out: bool = False
    serves: bool = False


@dataclass(frozen=True, slots=True)
class DataFacts:
    """The master's facts about the data. Bytes read and fetched are those of the last minute, of all mounts and
    workers.

    `fault_kind` is the kind of error of the last listing that failed; empty when the last one went well. `is_listing`
    until the first listing of this master's life has ended, well or not. `unanswered` are workers that ask the storage
    in vain.
    """

    files: int = 0
    size_bytes: int = 0
    cached_bytes: int = 0
    capacity_bytes: int = 0
    read_bytes: int = 0
    remote_bytes: int = 0
    fetched_bytes: int = 0
    snapshot_version: int = 0
    fault_kind: str = ""
    fault_message: str = ""
    is_listing: bool = False
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """Somebody who uses the volume now: "process 123 (python)", "pod default/train-0"."""

    user: str
    node: str


@dataclass(frozen=True, slots=True)
class OtherWorker:
    """A worker of another dataset on a node. `quotas` are the bytes of its levels, by medium."""

    dataset: str
    is_exclusive: bool
    quotas: Mapping[str, int] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The namespace of its dataset."""
        return self.dataset.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Observed:
    """All of it. `data` is `None` while no master answers; `referrers` are datasets that refer to this one.

    `secrets` and `claims` hold what the declared objects name; `None`, or an absent name, is a missing one.
    `operations` are those that run now: kind → names. `hosts` are nodes where the dataset that this one refers to is at
    home, for a backend that mounts a reference there before anybody uses it. `volume` is `None` where there
    is none. `keepers` are nodes where a mount outlives the process that serves it, so that another version
    can take it over under its readers. `has_pods` tells whether roles are pods, or processes. `master_fault` is what is
    wrong with the answer that came in the place of the master's. `open_folders` are those of the nodes that datasets
    may read, as whoever runs the nodes says, and `policy` what else may be asked for; `None` where the user's own
    rights decide. `sweeping` are nodes where what a deleted dataset left is being taken away, each with what keeps it
    from that, if that is known.
    """

    nodes: tuple[Node, ...] = ()
    secrets: Mapping[str, SecretFacts | None] = field(default_factory=dict)
    claims: Mapping[str, ClaimFacts] = field(default_factory=dict)
    roles: tuple[RoleFacts, ...] = ()
    data: DataFacts | None = None
    users: tuple[ConsumerFacts, ...] = ()
    others: Mapping[str, tuple[OtherWorker, ...]] = field(default_factory=dict)
    referrers: tuple[str, ...] = ()
    operations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()
    volume: VolumeFacts | None = None
    keepers: frozenset[str] = frozenset()
    has_pods: bool = False
    master_fault: str = ""
    open_folders: tuple[str, ...] | None = None
    policy: Policy | None = None
    sweeping: Mapping[str, str] = field(default_factory=dict)
