"""DataProcess: runs a program on the files of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from headrace.api.base import ApiModel, Count, CrossFault, Opaque, Rule
from headrace.api.containers import EnvVar, Resources, VersionSpec, Volume, VolumeMount
from headrace.api.metadata import PodMetadata
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


def _check_mount_path(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/"):
        raise ValueError("is not an absolute path without '..'")
    return path


def _check_sub_path(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError("is not a relative path without '..'")
    return path


MountPath = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_check_mount_path)]
SubPath = Annotated[str, Field(max_length=1024), AfterValidator(_check_sub_path)]


class ProcessedDataset(ApiModel):
    """The dataset, and where the program sees it."""

    name: ObjectName = Field(description="Name of the dataset")
    namespace: Namespace | None = Field(
        default=None, description="Its namespace, which must be this object's"
    )
    mount_path: MountPath = Field(description="Path at which the program sees it")
    sub_path: SubPath | None = Field(default=None, description="The part of it that the program sees")


class ScriptProcessor(VersionSpec):
    """A script that is run in a container."""

    restart_policy: Literal["Never", "OnFailure"] = Field(
        default="Never", description="Restarts it in place if it fails"
    )
    command: tuple[str, ...] = Field(
        default=(), description="Program that runs the script; a shell when absent"
    )
    source: str = Field(min_length=1, description="The script")
    env: tuple[EnvVar, ...] = Field(default=(), max_length=1024, description="Environment of the script")
    volume_mounts: tuple[VolumeMount, ...] = Field(default=(), description="Volumes beside the dataset")
    volumes: tuple[Volume, ...] = Field(default=(), description="Volumes for volumeMounts")
    resources: Resources | None = Field(default=None, description="Resources of its container")


class JobProcessor(ApiModel):
    """A pod that is run."""

    pod_spec: Opaque = Field(
        description="The pod, as Kubernetes has it; the dataset is added to its containers"
    )


class Processor(ApiModel):
    """The program: a script or a pod."""

    rules = (Rule("has(self.job) != has(self.script)", "exactly one of job and script is needed"),)

    service_account_name: str | None = Field(default=None, description="Account that the program acts as")
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of its pod")
    job: JobProcessor | None = Field(default=None, description="A pod")
    script: ScriptProcessor | None = Field(default=None, description="A script")

    def cross_faults(self) -> Iterator[CrossFault]:
        """Exactly one of the two."""
        if (self.job is None) == (self.script is None):
            found = "both are there" if self.job else "neither is there"
            yield CrossFault((), f"needs exactly one of job and script: {found}")


class DataProcessSpec(ApiModel):
    """The program to run, its dataset and its time."""

    rules = (
        CRON_RULE,
        POLICY_FIXED,
        Rule("self.dataset.name == oldSelf.dataset.name", "dataset cannot be changed: make a new object"),
    )

    dataset: ProcessedDataset = Field(description="The dataset, and where the program sees it")
    processor: Processor = Field(description="The program")
    run_after: RunAfter | None = Field(default=None, description="An operation that must be complete before")
    ttl_seconds_after_finished: Count | None = Field(
        default=None, description="Seconds after which the finished object is deleted, for policy Once"
    )
    policy: Policy = Field(default=Policy.ONCE, description="Run policy: once, or on a schedule")
    schedule: Cron | None = Field(default=None, description="Cron schedule, for policy Cron")

    def cross_faults(self) -> Iterator[CrossFault]:
        """A schedule when there must be one; no volume in the dataset's place."""
        yield from schedule_faults(self.policy, self.schedule)
        script = self.processor.script
        for number, mount in enumerate(script.volume_mounts if script else ()):
            if mount.mount_path.rstrip("/") == self.dataset.mount_path.rstrip("/"):
                place = ("processor", "script", "volumeMounts", number, "mountPath")
                yield CrossFault(place, "is where the dataset is (dataset.mountPath)")


class DataProcess(Resource):
    """Runs a program on the files of a dataset."""

    api_version: ApiVersion = Field(default=API_VERSION, description="Version of the API")
    kind: Literal["DataProcess"] = Field(default="DataProcess", description="Kind of the object")
    spec: DataProcessSpec = Field(description="The program to run, its dataset and its time")
    status: OperationStatus | None = Field(default=None, description="Observed state")

    def cross_faults(self) -> Iterator[CrossFault]:
        """The dataset's namespace; no wait for itself."""
        yield from super().cross_faults()
        place = ("spec", "dataset", "namespace")
        yield from namespace_faults(self.namespace, self.spec.dataset.namespace, place)
        yield from run_after_faults(self.kind, self.name, self.namespace, self.spec.run_after)
