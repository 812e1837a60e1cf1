"""DataLoad: brings data of a dataset into its cache before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from headrace.api.base import ApiModel, Count, CrossFault, Flag, Positive, Rule, Words
from headrace.api.containers import Resources
from headrace.api.metadata import PodMetadata
from headrace.api.mounts import TreePath
from headrace.api.names import API_VERSION, ApiVersion, Namespace, ObjectName
from headrace.api.operations import (
    CRON_RULE,
    POLICY_FIXED,
    OperationStatus,
    Policy,
    RunAfter,
    namespace_faults,
    run_after_faults,
    schedule_faults,
)
from headrace.api.resource import Resource
from headrace.api.schedules import Cron
from headrace.api.scheduling import Affinity, Toleration


class TargetDataset(ApiModel):
    """A dataset by name."""

    name: ObjectName = Field(description="Name of the dataset")
    namespace: Namespace | None = Field(
        default=None, description="Its namespace, which must be this object's"
    )


class TargetPath(ApiModel):
    """A part of the dataset."""

    path: TreePath = Field(description="File or folder in the dataset; / is all of it")
    replicas: Positive = Field(default=1, description="Workers that keep each block")


class DataLoadSpec(ApiModel):
    """The paths, schedule and options of a load."""

    rules = (
        CRON_RULE,
        POLICY_FIXED,
        Rule("self.dataset.name == oldSelf.dataset.name", "dataset cannot be changed: make a new object"),
    )

    dataset: TargetDataset = Field(description="The dataset")
    load_metadata: Flag = Field(default=False, description="Take a new list of the files first")
    target: Annotated[tuple[TargetPath, ...], Field(max_length=1024)] = Field(
        default=(), description="Paths to load; everything, once, when absent"
    )
    options: Words = Field(default_factory=dict, description="Options of the engine")
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of its pod")
    affinity: Affinity | None = Field(default=None, description="Affinity of its pod")
    tolerations: tuple[Toleration, ...] = Field(default=(), description="Taints that its pod puts up with")
    node_selector: Words = Field(default_factory=dict, description="Labels of the nodes it runs on")
    scheduler_name: str | None = Field(default=None, description="Scheduler of its pod")
    policy: Policy = Field(default=Policy.ONCE, description="Run policy: once, or on a schedule")
    schedule: Cron | None = Field(default=None, description="Cron schedule, for policy Cron")
    run_after: RunAfter | None = Field(default=None, description="An operation that must be complete before")
    ttl_seconds_after_finished: Count | None = Field(
        default=None, description="Seconds after which the finished object is deleted, for policy Once"
    )
    resources: Resources | None = Field(default=None, description="Resources of its container")

    def cross_faults(self) -> Iterator[CrossFault]:
        """A schedule when there must be one; each path once."""
        yield from schedule_faults(self.policy, self.schedule)
        seen: dict[str, int] = {}
        for number, target in enumerate(self.target):
            other = seen.setdefault(target.path.rstrip("/"), number)
            if other != number:
                yield CrossFault(("target", number, "path"), f"is the path of target[{other}], too")


class DataLoad(Resource):
    """Brings data of a dataset into its cache before it is asked for."""

    api_version: ApiVersion = Field(default=API_VERSION, description="Version of the API")
    kind: Literal["DataLoad"] = Field(default="DataLoad", description="Kind of the object")
    spec: DataLoadSpec = Field(description="Paths, schedule and options of the load")
    status: OperationStatus | None = Field(default=None, description="Observed state")

    def cross_faults(self) -> Iterator[CrossFault]:
        """The dataset's namespace; no wait for itself."""
        yield from super().cross_faults()
        place = ("spec", "dataset", "namespace")
        yield from namespace_faults(self.namespace, self.spec.dataset.namespace, place)
        yield from run_after_faults(self.kind, self.name, self.namespace, self.spec.run_after)
