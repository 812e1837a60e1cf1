"""The pod that takes away what a dataset left on a node.

It runs in the operator's own namespace: that of the dataset may be on its way out, and takes in nothing new then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from headrace.operator.rendering.naming import COMPONENT_LABEL, HOME_LABEL, SWEEPER, Names
from headrace.operator.settings import OperatorSettings

Content = dict[str, Any]


def sweeper_name(names: Names, node: str) -> str:
    """Its name: the node's may be too long, or have dots."""
    return f"headrace-sweep-{hashlib.sha256(f'{names.title} {node}'.encode()).hexdigest()[:16]}"


def sweeper(names: Names, node: str, roots: Iterable[str], settings: OperatorSettings) -> Content:
    """The pod, on that very node whatever its taints. `roots` are the folders in which the dataset had caches."""
    caches = sorted(set(roots))
    folders = [settings.node_folder, *caches]
    words = [word for cache in caches for word in ("--cache", cache)]
    propagation = {settings.node_folder: {"mountPropagation": "Bidirectional"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": sweeper_name(names, node),
            "namespace": settings.namespace,
            "labels": {**names.labels(), COMPONENT_LABEL: SWEEPER, HOME_LABEL: names.namespace},
            "annotations": names.annotations,
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "OnFailure",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": each} for each in settings.engine.pull_secrets],
            "containers": [
                {
                    "name": SWEEPER,
                    "image": settings.engine.name,
                    "imagePullPolicy": settings.engine.pull_policy,
                    "args": [
                        "sweep",
                        "--dataset",
                        names.title,
                        "--node-folder",
                        settings.node_folder,
                        *words,
                    ],
                    "securityContext": {"privileged": True},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
                    "volumeMounts": [
                        {"name": f"folder-{number}", "mountPath": folder, **propagation.get(folder, {})}
                        for number, folder in enumerate(folders)
                    ],
                }
            ],
            "volumes": [
                {"name": f"folder-{number}", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
                for number, folder in enumerate(folders)
            ],
        },
    }
