"""DataBackup: keeps what is known of a dataset's files, to start from later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from headrace.api.base import ApiModel, Count, CrossFault, Rule
from headrace.api.dataset import BackupPlace
from headrace.api.identities import User
from headrace.api.names import API_VERSION, ApiVersion, ObjectName
from headrace.api.operations import OperationStatus, RunAfter, run_after_faults
from headrace.api.resource import Resource

LOCATION_PATH = "BackupLocationPath"
LOCATION_NODE = "BackupLocationNodeName"


class DataBackupSpec(ApiModel):
    """Content and target of a backup."""

    rules = (Rule("self.dataset == oldSelf.dataset", "dataset cannot be changed: make a new object"),)

    dataset: ObjectName = Field(description="Name of the dataset, in this object's namespace")
    backup_path: BackupPlace | None = Field(
        default=None, description="Target: local:///folder or pvc://claim/folder"
    )
    run_as: User | None = Field(default=None, description="Owner of the files of the backup")
    run_after: RunAfter | None = Field(default=None, description="An operation that must be complete before")
    ttl_seconds_after_finished: Count | None = Field(
        default=None, description="Seconds after which the finished object is deleted"
    )


class DataBackup(Resource):
    """Keeps what is known of a dataset's files, to start from later."""

    api_version: ApiVersion = Field(default=API_VERSION, description="Version of the API")
    kind: Literal["DataBackup"] = Field(default="DataBackup", description="Kind of the object")
    spec: DataBackupSpec = Field(description="Content and target of the backup")
    status: OperationStatus | None = Field(default=None, description="Observed state")

    def cross_faults(self) -> Iterator[CrossFault]:
        """No wait for itself."""
        yield from super().cross_faults()
        yield from run_after_faults(self.kind, self.name, self.namespace, self.spec.run_after)
