"""The declarations for one name in one namespace: a dataset, its runtime, and the datasets that it refers to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.api.dataset import Dataset, DatasetPhase, DatasetStatus
from headrace.api.kinds import Runtime
from headrace.api.metadata import ObjectMeta
from headrace.api.mounts import scheme_of
from headrace.api.runtime_parts import RuntimeStatus
from headrace.plan import mount_addresses
from headrace.plan.runtimes import KINDS


@dataclass(frozen=True, slots=True)
class Declared:
    """One of dataset and runtime at least. Their status is what was planned last: the planner's only memory.

    `references` holds the datasets that mounts with `dataset://` name, by "namespace/name", where they exist.
    """

    dataset: Dataset | None
    runtime: Runtime | None = None
    references: Mapping[str, Dataset] = field(default_factory=dict)

    @property
    def metadata(self) -> ObjectMeta:
        """Name and namespace of both."""
        thing = self.dataset or self.runtime
        if thing is None:
            raise ValueError("a plan needs a dataset or a runtime")
        return thing.metadata

    @property
    def namespace(self) -> str:
        """The namespace of both."""
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.metadata.name}"

    @property
    def dataset_status(self) -> DatasetStatus:
        """The dataset's previous status."""
        return (self.dataset.status if self.dataset else None) or DatasetStatus()

    @property
    def runtime_status(self) -> RuntimeStatus:
        """The runtime's previous status."""
        return (self.runtime.status if self.runtime else None) or RuntimeStatus()


def referred_datasets(dataset: Dataset) -> list[str]:
    """The datasets that its mounts refer to, as `namespace/name`."""
    points = (mount.mount_point for mount in dataset.spec.mounts or ())
    return [
        mount_addresses.dataset_of(point)[0]
        for point in points
        if scheme_of(point) == mount_addresses.DATASET
    ]


def chosen_runtime(dataset: Dataset | None, runtimes: Iterable[Runtime]) -> Runtime | None:
    """The runtime that serves a dataset, of those of its name: the one that is bound, else the one that came first."""
    status = dataset.status if dataset else None
    bound = {each.type for each in status.runtimes} if status else set()

    def rank(runtime: Runtime) -> tuple[bool, str, str]:
        created = runtime.metadata.creation_timestamp
        return KINDS[runtime.kind].type not in bound, created.isoformat() if created else "", runtime.kind

    return min(runtimes, key=rank, default=None)


def is_leaving(thing: Dataset | Runtime | None) -> bool:
    """True for an object that is to be deleted."""
    return thing is not None and thing.metadata.deletion_timestamp is not None


def is_closing(dataset: Dataset) -> bool:
    """True for a dataset that nobody may begin to use: it is to be deleted, or its runtime is, as its status says."""
    status = dataset.status or DatasetStatus()
    return is_leaving(dataset) or status.phase is DatasetPhase.TERMINATING
