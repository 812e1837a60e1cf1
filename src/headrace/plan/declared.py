"""What people declared for one name in one namespace: a dataset, its runtime, and the datasets that it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.api.dataset import Dataset, DatasetStatus
from headrace.api.kinds import Runtime
from headrace.api.metadata import ObjectMeta
from headrace.api.runtime_parts import RuntimeStatus


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
        """What was said of the dataset last."""
        return (self.dataset.status if self.dataset else None) or DatasetStatus()

    @property
    def runtime_status(self) -> RuntimeStatus:
        """What was said of the runtime last."""
        return (self.runtime.status if self.runtime else None) or RuntimeStatus()


def is_leaving(thing: Dataset | Runtime | None) -> bool:
    """True for an object that is to be deleted."""
    return thing is not None and thing.metadata.deletion_timestamp is not None
