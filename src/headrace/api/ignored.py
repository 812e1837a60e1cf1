"""Fields that are accepted for the sake of YAML that exists, and mean nothing to Headrace's engine; and why.

They are named in a condition of the object, so that nobody waits for an effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.api.kinds import Object, kind_of
from headrace.api.writing import content_of

_JAVA = "the engine is no Java program"
_IMAGE = "the engine comes with Headrace; no other image can take its place"
_PROPERTIES = "tunes another engine; Headrace's own settings are chosen by the planner"
_PORTS = "ports are chosen by Headrace"
_JOB_SERVICE = "loads run in the workers; there is no job service"
_ONE_MASTER = "one master is enough: reads go on without it"
_HADOOP = "HDFS is reached by WebHDFS: give endpoint and user in the options of the mount"
_INIT_USERS = "users need not exist on the nodes"
_GATEWAY = "the master's own API is always there"
_LOG = "the log is set up for all of Headrace"
_AFFINITY = "spec.runAfter.affinityStrategy"
_PLACED = "what an operation reads is cached where the workers are, wherever an earlier one ran"
_POD_FIELDS = tuple(
    f"spec.{field}"
    for field in ("podMetadata", "affinity", "tolerations", "nodeSelector", "schedulerName", "resources")
)
_METRICS = "metrics are always offered"
_NETWORK = "Headrace chooses the network"
_CLEANING = "the cache goes with the runtime, and that is tried until it is done"
_VOLUME_SOURCE = "the volume is an emptyDir as large as the quota"
_FUSE_ARGS = "the mount chooses what the kernel can do best"

IGNORED: Mapping[str, Mapping[str, str]] = {
    "Dataset": {
        "spec.runtimes": "a runtime binds to the dataset of its own name",
        "spec.owner": "files belong to whom the storage says, or to the user that the mount runs as",
        "spec.mounts[].shared": "all users of a node share one mount of the dataset",
    },
    "AlluxioRuntime": {
        "spec.alluxioVersion": _IMAGE,
        "spec.jobMaster": _JOB_SERVICE,
        "spec.jobWorker": _JOB_SERVICE,
        "spec.apiGateway": _GATEWAY,
        "spec.initUsers": _INIT_USERS,
        "spec.properties": _PROPERTIES,
        "spec.jvmOptions": _JAVA,
        "spec.hadoopConfig": _HADOOP,
        "spec.master.replicas": _ONE_MASTER,
        "spec.worker.replicas": "the number of workers is spec.replicas",
        "spec.disablePrometheus": _METRICS,
        "spec.management.cleanCachePolicy": _CLEANING,
        **{f"spec.{role}.networkMode": _NETWORK for role in ("master", "worker", "fuse")},
        **{f"spec.{role}.jvmOptions": _JAVA for role in ("master", "worker", "fuse")},
        **{f"spec.{role}.properties": _PROPERTIES for role in ("master", "worker", "fuse")},
        **{f"spec.{role}.ports": _PORTS for role in ("master", "worker")},
        **{f"spec.{role}.enabled": "the role always runs" for role in ("master", "worker")},
        **{f"spec.fuse.{field}": _IMAGE for field in ("image", "imageTag", "imagePullPolicy")},
        "spec.fuse.args": _FUSE_ARGS,
        "spec.tieredstore.levels[].volumeSource": _VOLUME_SOURCE,
    },
    "JindoRuntime": {
        "spec.jindoVersion": _IMAGE,
        "spec.properties": _PROPERTIES,
        "spec.hadoopConfig": _HADOOP,
        "spec.logConfig": _LOG,
        "spec.master.disabled": "the master always runs: it takes the list of files",
        "spec.user": "processes run as spec.runAs says, by number",
        "spec.master.replicas": _ONE_MASTER,
        "spec.worker.replicas": "the number of workers is spec.replicas",
        "spec.networkmode": _NETWORK,
        "spec.cleanCachePolicy": _CLEANING,
        "spec.fuse.metrics": _METRICS,
        **{f"spec.{role}.properties": _PROPERTIES for role in ("master", "worker", "fuse")},
        **{f"spec.{role}.ports": _PORTS for role in ("master", "worker")},
        **{f"spec.fuse.{field}": _IMAGE for field in ("image", "imageTag", "imagePullPolicy")},
        "spec.fuse.args": _FUSE_ARGS,
        "spec.fuse.logConfig": _LOG,
        "spec.tieredstore.levels[].volumeSource": _VOLUME_SOURCE,
    },
    "DataLoad": {
        "spec.options": _PROPERTIES,
        **dict.fromkeys(_POD_FIELDS, "loads run in the workers, and have no pod"),
        _AFFINITY: _PLACED,
    },
    "DataMigrate": {
        **{f"spec.{field}": _IMAGE for field in ("image", "imageTag", "imagePullPolicy")},
        "spec.block": "a snapshot keeps readers apart from what is being copied",
        "spec.runtimeType": "there is one engine",
        "spec.options": _PROPERTIES,
        "spec.parallelOptions": "one process copies many files at a time",
        _AFFINITY: _PLACED,
    },
    "DataProcess": {_AFFINITY: _PLACED},
    "DataBackup": {_AFFINITY: _PLACED},
}
"""By kind: the path of the field, and why it has no effect."""

_PROCESSES = "here roles are processes, not pods"
_FOR_PODS = {
    **{f"spec.{field}": _PROCESSES for field in ("podMetadata", "labels", "volumes", "imagePullSecrets")},
    **{
        f"spec.{role}.{field}": _PROCESSES
        for role in ("master", "worker", "fuse")
        for field in ("resources", "env", "podMetadata", "labels", "volumeMounts", "imagePullSecrets")
    },
}
IGNORED_WITHOUT_PODS: Mapping[str, Mapping[str, str]] = {
    "AlluxioRuntime": _FOR_PODS,
    "JindoRuntime": _FOR_PODS,
    "DataMigrate": dict.fromkeys(_POD_FIELDS, "here copying is done by a process, not by a pod"),
}
"""The same for a backend that makes no pods."""

_CLEAN_POLICY = {
    "spec.fuse.cleanPolicy": (
        "OnFuseChanged",
        "OnFuseChanged does what OnRuntimeDeleted does: a changed mount process takes over, and programs go on reading",
    )
}
IGNORED_VALUES: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "AlluxioRuntime": _CLEAN_POLICY,
    "JindoRuntime": _CLEAN_POLICY,
}
"""By kind: the path of a field that has an effect, the one value that has none, and why."""

_NOTHING: tuple[Any, ...] = (None, False, "", {}, [])


@dataclass(frozen=True, slots=True)
class IgnoredField:
    """A field that an object sets in vain."""

    path: str
    why: str


def ignored_fields(thing: Object, *, has_pods: bool = True) -> list[IgnoredField]:
    """The fields that an object sets and that have no effect, in the order of the table.

    Without pods, on the local backend, so have those that say how pods are made.
    """
    content, kind = content_of(thing), kind_of(thing).name
    without_pods = {} if has_pods else IGNORED_WITHOUT_PODS.get(kind, {})
    found = []
    for pattern, why in {**IGNORED.get(kind, {}), **without_pods}.items():
        wanted = 1 if pattern.endswith("aster.replicas") else None
        places = _places(content, pattern.split("."), "")
        found += [
            IgnoredField(path, why) for path, value in places if value not in _NOTHING and value != wanted
        ]
    for pattern, (ignored, why) in IGNORED_VALUES.get(kind, {}).items():
        places = _places(content, pattern.split("."), "")
        found += [IgnoredField(path, why) for path, value in places if value == ignored]
    return found


def _places(value: Any, parts: list[str], path: str) -> Iterator[tuple[str, Any]]:
    """The places of an object's content that a pattern names, with what stands there."""
    if not parts:
        yield path, value
        return
    name = parts[0].removesuffix("[]")
    if not isinstance(value, Mapping) or name not in value:
        return
    here = f"{path}.{name}" if path else name
    if parts[0].endswith("[]"):
        for number, item in enumerate(value[name]):
            yield from _places(item, parts[1:], f"{here}[{number}]")
    else:
        yield from _places(value[name], parts[1:], here)
