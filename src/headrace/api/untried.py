"""Fields that have an effect and that no test uses on a real Kubernetes: the page of fields says so of each.

A test holds this against the objects that the tests on a real cluster declare.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

_OF_RUNTIMES = (
    "spec.*.resources.claims[[]]",
    "spec.*.volumeMounts[[]].recursiveReadOnly",
    "spec.*.volumeMounts[[]].subPathExpr",
    "spec.*.volumeMounts[[]].mountPropagation",
)
_CRON = ("spec.policy", "spec.schedule")

UNTRIED: Mapping[str, tuple[str, ...]] = {
    "Dataset": ("spec.sharedWith[[]]",),
    "AlluxioRuntime": _OF_RUNTIMES,
    "JindoRuntime": (
        *_OF_RUNTIMES,
        "spec.master.podMetadata.labels",
        "spec.worker.labels",
        "spec.fuse.podMetadata.labels",
        "spec.podMetadata.labels",
        "spec.*.disabled",
    ),
    "DataLoad": ("spec.runAfter*", "spec.ttlSecondsAfterFinished"),
    "DataMigrate": (
        "spec.from.externalStorage*",
        "spec.to.dataset*",
        "spec.podMetadata*",
        "spec.affinity*",
        "spec.tolerations*",
        "spec.nodeSelector",
        "spec.schedulerName",
        "spec.resources*",
        "spec.parallelism",
        *_CRON,
        "spec.runAfter*",
        "spec.ttlSecondsAfterFinished",
    ),
    "DataProcess": (
        "spec.processor.serviceAccountName",
        "spec.processor.podMetadata*",
        "spec.processor.script.restartPolicy",
        "spec.processor.script.env*",
        "spec.processor.script.resources*",
        "spec.processor.script.volumeMounts[[]].readOnly",
        "spec.processor.script.volumeMounts[[]].recursiveReadOnly",
        "spec.processor.script.volumeMounts[[]].subPath*",
        "spec.processor.script.volumeMounts[[]].mountPropagation",
        "spec.runAfter.apiVersion",
        *_CRON,
        "spec.ttlSecondsAfterFinished",
    ),
    "DataBackup": ("spec.runAfter*", "spec.ttlSecondsAfterFinished"),
}
"""By kind: patterns of paths."""


def is_untried(kind: str, path: str) -> bool:
    """True for a field (`spec.mounts[].name`) that no test uses on a real cluster."""
    return any(fnmatchcase(path, pattern) for pattern in UNTRIED.get(kind, ()))
