"""The meaning of each condition: for the reference page, and so that no condition is written that nobody can look
up."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.api.conditions import DatasetConditionType as OfDataset
from headrace.api.conditions import OperationConditionType as OfOperation
from headrace.api.conditions import RuntimeConditionType as OfRuntime

DATASET: Mapping[str, str] = {
    OfDataset.READY: "Programs can read it. False: `reason` is what it waits for",
    OfDataset.UPDATING: "Its mounts were changed, and not all that serves it reads the new ones yet",
    OfDataset.DEGRADED: "It can be read, and something is wrong: a change cannot be followed, or a part of it failed",
    OfDataset.TERMINATING: "It, or its runtime, is to be deleted and cannot be yet, since somebody uses it or refers "
    "to it. Nobody else may begin to use it",
    OfDataset.FIELDS_IGNORED: "The message names fields that were accepted and mean nothing to this engine",
    OfDataset.CACHE_OVERCOMMITTED: "The quotas are larger than the disk or memory of their nodes: the cache holds what "
    "fits, and reads of the rest go to the storage",
}

RUNTIME: Mapping[str, str] = {
    OfRuntime.MASTER_INITIALIZED: "The master was started",
    OfRuntime.MASTER_READY: "The master answers",
    OfRuntime.WORKERS_INITIALIZED: "Workers were started",
    OfRuntime.WORKERS_READY: "As many workers serve as the runtime asks for; the message counts them",
    OfRuntime.WORKERS_SCALED_OUT: "The last change of replicas was to more; the message says from what to what",
    OfRuntime.WORKERS_SCALED_IN: "The last change of replicas was to fewer; workers hand over what they hold first",
    OfRuntime.FUSES_INITIALIZED: "Mounts were started",
    OfRuntime.FUSES_READY: "All mounts answer; the message counts them",
    OfRuntime.TERMINATING: "It is to be deleted and cannot be yet, since somebody uses its dataset",
    OfRuntime.FIELDS_IGNORED: "The message names fields that were accepted and mean nothing to this engine",
    OfRuntime.FIELDS_REFUSED: "The message names fields that the administrator's policy leaves out, and what to do",
}

OPERATION: Mapping[str, str] = {
    OfOperation.WAITING: "It has not begun: `reason` is what it waits for",
    OfOperation.DEGRADED: "It has begun, and something keeps it from going on: `reason` and message say what",
    OfOperation.COMPLETE: "It ended well, and what it did was verified",
    OfOperation.FAILED: "It ended otherwise, or can never begin: `reason` and message say why",
    OfOperation.FIELDS_IGNORED: "The message names fields that were accepted and mean nothing to this engine",
}

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "Dataset": DATASET,
    "AlluxioRuntime, JindoRuntime": RUNTIME,
    "DataLoad, DataMigrate, DataProcess, DataBackup": OPERATION,
}
"""The conditions of each kind, in the order in which they are read."""
