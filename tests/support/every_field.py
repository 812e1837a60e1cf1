"""Datasets and runtimes that between them use the fields that have an effect on Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Content = dict[str, Any]

LABEL, NOTE, VARIABLE = {"example.com/team": "vision"}, {"example.com/note": "kept"}, {"EXAMPLE": "value"}
"""What is to be seen at pods."""

_TOLERATION = {
    "key": "example",
    "operator": "Equal",
    "value": "yes",
    "effect": "NoExecute",
    "tolerationSeconds": 60,
}
_PART = {
    "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "10m", "memory": "64Mi"}},
    "env": VARIABLE,
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "imagePullSecrets": [{"name": "none-such"}],
}
_MOUNT = {"volumeMounts": [{"name": "extra", "mountPath": "/extra", "readOnly": True, "subPath": "part"}]}
_RUN_AS = {"uid": 1005, "gid": 1005, "user": "user", "group": "group"}
_LEVELS = [
    {"mediumtype": "MEM", "volumeType": "emptyDir", "path": "/cache", "quota": "64Mi"},
    {
        **{"mediumtype": "SSD", "path": "/var/lib/cache,/var/lib/cache2", "quotaList": "128Mi,128Mi"},
        **{"high": "0.9", "low": "0.8"},
    },
]


def _object(kind: str, name: str, spec: Content) -> Content:
    head = {"apiVersion": "data.fluid.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
    return {**head, "spec": spec}


def dataset(name: str, node: str, bucket: str, endpoint: str, region: str, **more: Any) -> Content:
    """A Dataset of a bucket, cached on one node."""
    keys = {"access-key-id": "id", "secret-access-key": "secret"}
    secret = [
        {"name": option, "valueFrom": {"secretKeyRef": {"name": "keys", "key": key}}}
        for option, key in keys.items()
    ]
    mount = {
        **{"mountPoint": f"s3://{bucket}/", "name": name, "path": "/", "readOnly": True},
        **{"options": {"endpoint": endpoint}, "encryptOptions": secret[:1]},
        "exclude": ["*.tmp"],
    }
    linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [{"matchExpressions": [linux], "matchFields": [named]}]
    spec = {
        "mounts": [mount],
        "sharedOptions": {"region": region, "path-style": "true"},
        "sharedEncryptOptions": secret[1:],
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        "tolerations": [_TOLERATION],
        "accessModes": ["ReadOnlyMany"],
        "placement": "Shared",
    }
    return _object("Dataset", name, spec | more)


def alluxio(name: str) -> Content:
    """An AlluxioRuntime."""
    seen = {"podMetadata": {"labels": LABEL, "annotations": NOTE}}
    part = {**_PART, **_MOUNT, **seen}
    return _object(
        "AlluxioRuntime",
        name,
        {
            **{"replicas": 1, "runAs": _RUN_AS, "tieredstore": {"levels": _LEVELS}, **seen},
            **{"master": part, "worker": part, "fuse": {**part, "cleanPolicy": "OnDemand"}},
            **{"data": {"replicas": 1, "pin": True}, "volumes": [{"name": "extra", "emptyDir": {}}]},
            **{"management": {"metadataSyncPolicy": {"autoSync": True}}},
            "imagePullSecrets": [{"name": "none-such"}],
        },
    )


def jindo(name: str) -> Content:
    """A JindoRuntime. Labels stand in one of two places of each part."""
    part = {**_PART, "tolerations": [_TOLERATION], "podMetadata": {"annotations": NOTE}}
    seen = {"podMetadata": {"labels": LABEL, "annotations": NOTE}}
    return _object(
        "JindoRuntime",
        name,
        {
            **{"replicas": 1, "runAs": _RUN_AS, "tieredstore": {"levels": _LEVELS}, "secret": "keys-by-name"},
            "master": {**part, **_MOUNT, "labels": LABEL},
            "worker": {**part, **_MOUNT, **seen},
            "fuse": {**part, "labels": LABEL, "cleanPolicy": "OnDemand"},
            **{"labels": LABEL, "podMetadata": {"annotations": NOTE}},
            **{"volumes": [{"name": "extra", "emptyDir": {}}], "imagePullSecrets": [{"name": "none-such"}]},
        },
    )


ELSEWHERE = {
    "Dataset": {
        "test_operations.py": (
            *("spec.dataRestoreLocation", "spec.dataRestoreLocation.path"),
            "spec.dataRestoreLocation.nodeName",
        )
    },
    "DataLoad": {
        "test_datasets.py": (
            "spec.dataset",
            "spec.dataset.name",
            "spec.dataset.namespace",
            "spec.loadMetadata",
            *("spec.target[]", "spec.target[].path", "spec.target[].replicas"),
        ),
        "test_repairs.py": ("spec.policy", "spec.schedule"),
    },
    "DataMigrate": {
        "test_operations.py": (
            *("spec.from", "spec.from.dataset", "spec.from.dataset.name", "spec.from.dataset.namespace"),
            *("spec.from.dataset.path", "spec.to", "spec.to.externalStorage", "spec.to.externalStorage.uri"),
            "spec.to.externalStorage.encryptOptions[]",
            "spec.to.externalStorage.encryptOptions[].name",
            "spec.to.externalStorage.encryptOptions[].valueFrom",
            "spec.to.externalStorage.encryptOptions[].valueFrom.secretKeyRef",
            "spec.to.externalStorage.encryptOptions[].valueFrom.secretKeyRef.name",
            "spec.to.externalStorage.encryptOptions[].valueFrom.secretKeyRef.key",
        )
    },
    "DataProcess": {
        "test_operations.py": (
            *("spec.dataset", "spec.dataset.name", "spec.dataset.namespace", "spec.dataset.mountPath"),
            *("spec.dataset.subPath", "spec.processor", "spec.processor.job", "spec.processor.job.podSpec"),
            *("spec.processor.script", "spec.processor.script.image", "spec.processor.script.imageTag"),
            *("spec.processor.script.imagePullPolicy", "spec.processor.script.command[]"),
            *("spec.processor.script.source", "spec.processor.script.volumes[]"),
            *("spec.processor.script.volumes[].name", "spec.processor.script.volumeMounts[]"),
            *("spec.processor.script.volumeMounts[].name", "spec.processor.script.volumeMounts[].mountPath"),
            *("spec.runAfter", "spec.runAfter.kind", "spec.runAfter.name", "spec.runAfter.namespace"),
        )
    },
    "DataBackup": {
        "test_operations.py": (
            *("spec.dataset", "spec.backupPath", "spec.runAs", "spec.runAs.uid", "spec.runAs.gid"),
            *("spec.runAs.user", "spec.runAs.group"),
        )
    },
}
"""By kind and file of tests/kubernetes: fields that other tests there use."""


def used(objects: list[Content]) -> Iterator[tuple[str, str]]:
    """Kind and path of every field that objects set."""
    for each in objects:
        for path in _paths(each["spec"], "spec"):
            yield each["kind"], path


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}{'[]' if isinstance(inner, list) else ''}"
            yield here
            yield from _paths(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, path)
