"""Columns that `get` prints, in their order: for the CRDs' printer columns and for our own tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title and where its value stands. One with a priority shows in wide tables only."""

    title: str
    path: str
    type: Literal["string", "integer", "date"] = "string"
    priority: int = 0


AGE = Column("Age", ".metadata.creationTimestamp", "date")
_PHASE = Column("Phase", ".status.phase")
_DURATION = Column("Duration", ".status.duration")

DATASET = (
    Column("Ufs Total Size", ".status.ufsTotal"),
    Column("Cached", ".status.cacheStates.cached"),
    Column("Cache Capacity", ".status.cacheStates.cacheCapacity"),
    Column("Cached Percentage", ".status.cacheStates.cachedPercentage"),
    _PHASE,
    Column("HCFS URL", ".status.hcfs.endpoint", priority=10),
    Column("TOTAL FILES", ".status.fileNum", priority=11),
    Column("CACHE HIT RATIO", ".status.cacheStates.cacheHitRatio", priority=10),
    AGE,
)

_ROLES = (
    Column("Ready Masters", ".status.masterNumberReady", "integer", 10),
    Column("Desired Masters", ".status.desiredMasterNumberScheduled", "integer", 10),
    Column("Master Phase", ".status.masterPhase"),
    Column("Ready Workers", ".status.workerNumberReady", "integer", 10),
    Column("Desired Workers", ".status.desiredWorkerNumberScheduled", "integer", 10),
    Column("Worker Phase", ".status.workerPhase"),
    Column("Ready Fuses", ".status.fuseNumberReady", "integer", 10),
    Column("Desired Fuses", ".status.desiredFuseNumberScheduled", "integer", 10),
    Column("Fuse Phase", ".status.fusePhase"),
)
ALLUXIO = (*_ROLES, Column("API Gateway", ".status.apiGateway.endpoint", priority=10), AGE)
JINDO = (*_ROLES, AGE)

DATA_LOAD = (Column("Dataset", ".spec.dataset.name"), _PHASE, AGE, _DURATION)
DATA_MIGRATE = (_PHASE, AGE, _DURATION)
DATA_PROCESS = (Column("Dataset", ".spec.dataset.name"), _PHASE, AGE, _DURATION)
DATA_BACKUP = (
    Column("Dataset", ".spec.dataset"),
    _PHASE,
    Column("Path", ".status.infos.BackupLocationPath"),
    Column("NodeName", ".status.infos.BackupLocationNodeName"),
    _DURATION,
    AGE,
)

# Objects of Kubernetes itself: kubectl's own columns, at the time of the documents that Headrace follows. Paths with a
# name after "|" are written by the function of that name in `printing`.
SECRET = (
    Column("Type", "|secret_type"),
    Column("Data", "|entries", "integer"),
    AGE,
)
CONFIG_MAP = (Column("Data", "|entries", "integer"), AGE)
PERSISTENT_VOLUME = (
    Column("Capacity", ".spec.capacity.storage"),
    Column("Access Modes", "|volume_modes"),
    Column("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
    Column("Status", "|phase_or_terminating"),
    Column("Claim", "|claim"),
    Column("StorageClass", ".spec.storageClassName"),
    Column("Reason", ".status.reason"),
    AGE,
    Column("VolumeMode", ".spec.volumeMode", priority=1),
)
PERSISTENT_VOLUME_CLAIM = (
    Column("Status", "|phase_or_terminating"),
    Column("Volume", ".spec.volumeName"),
    Column("Capacity", ".status.capacity.storage"),
    Column("Access Modes", "|claim_modes"),
    Column("StorageClass", ".spec.storageClassName"),
    AGE,
    Column("VolumeMode", ".spec.volumeMode", priority=1),
)
