"""Why something is not as it was asked for: one reason a wait, its meaning, what to do, and how long it may last.

The names are part of the API: they stand in conditions and events, and programs may rely on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The one reason of a wait."""

    RUNTIME_MISSING = "RuntimeMissing"
    DATASET_MISSING = "DatasetMissing"
    DATASET_TAKEN = "DatasetTaken"
    MOUNTS_MISSING = "MountsMissing"
    MOUNTS_OVERLAP = "MountsOverlap"
    SCHEME_NOT_SUPPORTED = "SchemeNotSupported"
    ADDRESS_REFUSED = "AddressRefused"
    FOLDER_NOT_OPEN = "FolderNotOpen"
    OPTION_MISSING = "OptionMissing"
    OPTION_REFUSED = "OptionRefused"
    DATASET_REFERENCE_MISSING = "DatasetReferenceMissing"
    DATASET_REFERENCE_REFUSED = "DatasetReferenceRefused"
    DATASET_REFERENCE_NOT_READY = "DatasetReferenceNotReady"
    DATASET_NOT_SHARED = "DatasetNotShared"
    SECRET_MISSING = "SecretMissing"  # noqa: S105
    SECRET_KEY_MISSING = "SecretKeyMissing"  # noqa: S105
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_PENDING = "ClaimPending"
    QUOTA_MISSING = "QuotaMissing"
    CACHE_FOLDER_NOT_ALLOWED = "CacheFolderNotAllowed"
    BACKUP_FOLDER_NOT_ALLOWED = "BackupFolderNotAllowed"
    NO_NODE_MATCHES = "NoNodeMatches"
    NODES_TAINTED = "NodesTainted"
    NODES_TAKEN = "NodesTaken"
    NODES_FULL = "NodesFull"
    NODES_NOT_READY = "NodesNotReady"
    QUOTA_LARGER_THAN_DISK = "QuotaLargerThanDisk"
    WORKERS_DISABLED = "WorkersDisabled"
    MASTER_STARTING = "MasterStarting"
    MASTER_FAILED = "MasterFailed"
    MASTER_NOT_UNDERSTOOD = "MasterNotUnderstood"
    FILES_LISTING = "FilesListing"
    BUCKET_UNREACHABLE = "BucketUnreachable"
    ACCESS_DENIED = "AccessDenied"
    ORIGIN_MISSING = "OriginMissing"
    WORKERS_STARTING = "WorkersStarting"
    WORKERS_FAILED = "WorkersFailed"
    WORKERS_GONE = "WorkersGone"
    MOUNT_REFUSED = "MountRefused"
    MOUNT_NOT_ALLOWED = "MountNotAllowed"
    VOLUME_TAKEN = "VolumeTaken"
    VOLUME_OUTDATED = "VolumeOutdated"
    VOLUME_IN_USE = "VolumeInUse"
    DATASET_REFERRED = "DatasetReferred"
    DELETING = "Deleting"
    DATASET_NOT_READY = "DatasetNotReady"
    PREDECESSOR_MISSING = "PredecessorMissing"
    PREDECESSOR_REFUSED = "PredecessorRefused"
    PREDECESSOR_RUNNING = "PredecessorRunning"
    PREDECESSOR_FAILED = "PredecessorFailed"
    POLICY_NOT_SUPPORTED = "PolicyNotSupported"
    SCHEDULE_NEVER_DUE = "ScheduleNeverDue"
    OPERATION_STARTING = "OperationStarting"
    POD_UNSCHEDULABLE = "PodUnschedulable"
    IMAGE_NOT_PULLED = "ImageNotPulled"
    POD_NOT_STARTING = "PodNotStarting"
    POD_KILLED = "PodKilled"
    OPERATION_FAILED = "OperationFailed"
    LOAD_INCOMPLETE = "LoadIncomplete"
    COPY_INCOMPLETE = "CopyIncomplete"
    TARGET_NOT_SUPPORTED = "TargetNotSupported"
    SOURCE_NOT_SUPPORTED = "SourceNotSupported"
    POD_NOT_ALLOWED = "PodNotAllowed"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a reason, what a person does about it, and how long it may last before the object is Failed.

    Without a deadline it is no failure: somebody has to want something else.
    """

    meaning: str
    action: str
    deadline_s: float | None = None


_SOON = 120.0
_SETUP = 600.0
_LONG = 1800.0
_LISTING = 6 * 3600.0

MEANINGS: Mapping[Reason, Meaning] = {
    Reason.RUNTIME_MISSING: Meaning(
        "There is no runtime of the dataset's name in its namespace",
        "create an AlluxioRuntime or a JindoRuntime of the same name",
    ),
    Reason.DATASET_MISSING: Meaning(
        "There is no dataset of the runtime's name in its namespace", "create a Dataset of the same name"
    ),
    Reason.DATASET_TAKEN: Meaning(
        "The dataset is served by a runtime of another kind and the same name",
        "delete one of the two runtimes",
    ),
    Reason.MOUNTS_MISSING: Meaning("The dataset names no origin", "write spec.mounts", _SETUP),
    Reason.MOUNTS_OVERLAP: Meaning(
        "One mount is at the top of the dataset, and there are others",
        "give each mount a path of its own below the top",
        _SETUP,
    ),
    Reason.SCHEME_NOT_SUPPORTED: Meaning(
        "The engine cannot read addresses of this scheme",
        "use one of oss, s3, hdfs, webhdfs, http, https, nfs, local, pvc or dataset",
        _SETUP,
    ),
    Reason.ADDRESS_REFUSED: Meaning(
        "The address carries credentials, or leads nowhere",
        "write the address without them, and the credentials as encryptOptions",
        _SETUP,
    ),
    Reason.FOLDER_NOT_OPEN: Meaning(
        "Datasets may not read this folder of the nodes",
        "use a claim, or have the administrator add the folder to localFolders of the chart's values",
        _SETUP,
    ),
    Reason.OPTION_MISSING: Meaning(
        "An option that the origin needs is not there", "write it under options or encryptOptions", _SETUP
    ),
    Reason.OPTION_REFUSED: Meaning(
        "The engine does not take the settings of an origin or of a role",
        "correct what the message names",
        _SETUP,
    ),
    Reason.DATASET_REFERENCE_MISSING: Meaning(
        "The dataset that a mount refers to does not exist", "create it, or correct the address", _SETUP
    ),
    Reason.DATASET_REFERENCE_REFUSED: Meaning(
        "The dataset that a mount refers to cannot be used so",
        "refer to one dataset alone and without a runtime, or to one of the same namespace without a chain",
        _SETUP,
    ),
    Reason.DATASET_REFERENCE_NOT_READY: Meaning(
        "The dataset that this one refers to is not ready", "look at that dataset's conditions", _SETUP
    ),
    Reason.DATASET_NOT_SHARED: Meaning(
        "The dataset that a mount refers to is in another namespace, and is not shared with this one or does not exist",
        "ask the owners of that namespace to name this one under spec.sharedWith of the Dataset there",
    ),
    Reason.SECRET_MISSING: Meaning(
        "A Secret that a mount names does not exist in the dataset's namespace", "create it", _SETUP
    ),
    Reason.SECRET_KEY_MISSING: Meaning(
        "A Secret that a mount names lacks a key", "add the key to the Secret, or correct its name", _SETUP
    ),
    Reason.CLAIM_MISSING: Meaning(
        "The claim that a mount names does not exist in the dataset's namespace", "create it", _SETUP
    ),
    Reason.CLAIM_PENDING: Meaning(
        "The claim that a mount names has no volume yet", "create a volume that fits it", _SETUP
    ),
    Reason.QUOTA_MISSING: Meaning(
        "A level of tieredstore says neither quota nor quotaList", "write the quota of the level", _SETUP
    ),
    Reason.CACHE_FOLDER_NOT_ALLOWED: Meaning(
        "The administrator has no caches of datasets in this folder of the nodes",
        "write one of these, or have the administrator add the folder to policy.cacheFolders of the chart's values",
        _SETUP,
    ),
    Reason.BACKUP_FOLDER_NOT_ALLOWED: Meaning(
        "The administrator has no backups of the namespace in this folder of the nodes",
        "write a folder in there, use a claim, or have the administrator add one to policy.backupFolders of the chart",
        0.0,
    ),
    Reason.NO_NODE_MATCHES: Meaning(
        "Fewer nodes than workers fit nodeAffinity, nodeSelector and the volumes of claims",
        "label more nodes, change the selector, or ask for fewer replicas",
        _SETUP,
    ),
    Reason.NODES_TAINTED: Meaning(
        "Nodes that would fit have taints that are not tolerated",
        "write tolerations, of keys that policy.tolerations of the chart's values has",
        _SETUP,
    ),
    Reason.NODES_TAKEN: Meaning(
        "Nodes that would fit hold workers of another dataset, and one of the two is placed Exclusive",
        "write placement: Shared in both datasets, or add nodes",
        _SETUP,
    ),
    Reason.NODES_FULL: Meaning(
        "The quotas of caches would be more than the administrator allows on the nodes that would fit",
        "ask for a smaller quota or fewer replicas, or have the administrator raise policy.cachePerNode, or "
        "policy.namespaceCachePerNode, of the chart's values",
        _SETUP,
    ),
    Reason.NODES_NOT_READY: Meaning("Nodes that would fit are not ready", "repair them", _SETUP),
    Reason.QUOTA_LARGER_THAN_DISK: Meaning(
        "The quotas of the levels are larger than the disk, or the memory, of their nodes: the cache holds what fits, "
        "and other reads go to the storage",
        "ask for a smaller quota, or name a folder on a larger disk",
        _SETUP,
    ),
    Reason.WORKERS_DISABLED: Meaning(
        "The runtime asks for no worker, so nothing answers reads", "scale spec.replicas up"
    ),
    Reason.MASTER_STARTING: Meaning("The master is starting", "wait", _SOON),
    Reason.MASTER_FAILED: Meaning("The master does not run", "look at its log", _SOON),
    Reason.MASTER_NOT_UNDERSTOOD: Meaning(
        "What answers in the place of the master lacks its token, or its answer is too large or makes no sense",
        "see that nothing but the master's pod has the labels that its Service selects, and delete that pod",
        _SETUP,
    ),
    Reason.FILES_LISTING: Meaning("The list of files is being taken", "wait", _LISTING),
    Reason.BUCKET_UNREACHABLE: Meaning(
        "An origin does not answer", "check endpoint, name resolution and network", _SETUP
    ),
    Reason.ACCESS_DENIED: Meaning(
        "An origin refuses the credentials", "check the keys in the Secret and their rights", _SETUP
    ),
    Reason.ORIGIN_MISSING: Meaning(
        "The bucket, folder or export of a mount is not there", "check mountPoint", _SETUP
    ),
    Reason.WORKERS_STARTING: Meaning("No worker is ready yet", "wait", _SOON),
    Reason.WORKERS_FAILED: Meaning("No worker runs", "look at the workers' logs", _SOON),
    Reason.WORKERS_GONE: Meaning(
        "Workers that served the dataset are gone", "bring the nodes back, or put right why they failed", 0.0
    ),
    Reason.MOUNT_REFUSED: Meaning("A node cannot mount the dataset", "look at the log of the mount", _SOON),
    Reason.MOUNT_NOT_ALLOWED: Meaning(
        "The dataset is used on a node that the runtime's fuse part excludes",
        "run the program elsewhere, or change fuse.nodeSelector",
        _SETUP,
    ),
    Reason.VOLUME_TAKEN: Meaning(
        "A PersistentVolume or claim of this dataset's name exists and is not managed by Headrace",
        "delete it if nobody needs it, or declare the dataset under another name",
    ),
    Reason.VOLUME_OUTDATED: Meaning(
        "The volume is not as it is declared by now, or was deleted, and somebody uses it",
        "end those who use it, then it is made anew",
    ),
    Reason.VOLUME_IN_USE: Meaning(
        "The dataset, or its runtime, is to be deleted, and somebody uses its volume", "end those who use it"
    ),
    Reason.DATASET_REFERRED: Meaning(
        "The dataset is to be deleted, and other datasets refer to it", "delete those first"
    ),
    Reason.DELETING: Meaning("The dataset is being taken down", "wait"),
    Reason.DATASET_NOT_READY: Meaning(
        "The dataset of the operation is missing or not ready", "look at the dataset's conditions", _SETUP
    ),
    Reason.PREDECESSOR_MISSING: Meaning(
        "The operation named in runAfter does not exist", "create it, or correct the name", _SETUP
    ),
    Reason.PREDECESSOR_REFUSED: Meaning(
        "The operation named in runAfter is there, and makes no sense to this release",
        "apply that one anew, or name another",
        _SETUP,
    ),
    Reason.PREDECESSOR_RUNNING: Meaning("The operation named in runAfter has not ended yet", "wait"),
    Reason.PREDECESSOR_FAILED: Meaning(
        "The operation named in runAfter failed", "repair that one, and create both anew", 0.0
    ),
    Reason.POLICY_NOT_SUPPORTED: Meaning(
        "Policy OnEvent has no events that it could follow", "write policy Once or Cron", 0.0
    ),
    Reason.SCHEDULE_NEVER_DUE: Meaning(
        "The schedule names no day that ever comes", "correct the schedule", 0.0
    ),
    Reason.OPERATION_STARTING: Meaning("The operation was ordered and has not begun", "wait", _SETUP),
    Reason.POD_UNSCHEDULABLE: Meaning(
        "No node takes the pod of the operation",
        "free a node, or correct nodeSelector, affinity, tolerations and resources of the operation",
    ),
    Reason.IMAGE_NOT_PULLED: Meaning(
        "The image of a pod cannot be pulled",
        "correct its name (a role's: image.engine of the chart; an operation's: its own field), or the pull secret",
        _SETUP,
    ),
    Reason.POD_NOT_STARTING: Meaning(
        "The pod of the operation is not made, or its container does not start",
        "see `kubectl describe job,pod`: a volume, a Secret or a quota is lacking",
        _LONG,
    ),
    Reason.POD_KILLED: Meaning(
        "Pods of the operation were killed, and another one goes on with it",
        "look at the log of the last one, or ask for more memory",
    ),
    Reason.OPERATION_FAILED: Meaning("The operation failed", "see the message", 0.0),
    Reason.LOAD_INCOMPLETE: Meaning(
        "The load ended, and not all that was asked for is cached",
        "give the runtime more quota, or load less; see the message",
        0.0,
    ),
    Reason.COPY_INCOMPLETE: Meaning(
        "The copy ended, and not all files arrived and were verified", "see the message", 0.0
    ),
    Reason.TARGET_NOT_SUPPORTED: Meaning(
        "The operation cannot write where it is asked to", "name another place", 0.0
    ),
    Reason.SOURCE_NOT_SUPPORTED: Meaning(
        "The operation may not read what it is asked to", "declare it in the namespace of the dataset", 0.0
    ),
    Reason.POD_NOT_ALLOWED: Meaning(
        "The pod of the operation asks for more than the administrator's policy allows",
        "leave it out, or have the administrator allow it in `policy` of the chart's values",
        0.0,
    ),
    Reason.REFUSED: Meaning(
        "The object was taken in, and makes no sense: its schema cannot tell, or another release took it",
        "correct what the message names, or delete the object",
        0.0,
    ),
}


@dataclass(frozen=True, slots=True)
class Wait:
    """The cause of waiting: the reason for programs, a sentence with what to do for people."""

    reason: Reason
    message: str


def wait(reason: Reason, what: str) -> Wait:
    """The wait for `reason`; `what` says on which object, and the reason's own words what to do."""
    return Wait(reason, f"{what}: {MEANINGS[reason].action}")


def deadline_s(reason: Reason) -> float | None:
    """The time that a wait may last before it is a failure; `None` for ever."""
    return MEANINGS[reason].deadline_s
