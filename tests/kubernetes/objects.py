"""Objects that tests of Kubernetes put into a cluster."""

from __future__ import annotations

import textwrap
from typing import Any


def pod(
    name: str,
    image: str,
    script: str,
    *,
    node: str | None = None,
    privileged: bool = False,
    volumes: dict[str, dict[str, Any]] | None = None,
    propagation: str | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A pod that runs a shell script. `volumes` are mounted at the paths that they are called by."""
    names = {path: path.strip("/").replace("/", "-") for path in volumes or {}}
    mounts: list[dict[str, Any]] = [{"name": names[path], "mountPath": path} for path in names]
    for mount in mounts if propagation else ():
        mount["mountPropagation"] = propagation
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-ec", textwrap.dedent(script)],
        "securityContext": {"privileged": privileged},
        "volumeMounts": mounts,
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "volumes": [{"name": names[path], **source} for path, source in (volumes or {}).items()],
        "terminationGracePeriodSeconds": 1,
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
    }


def service(name: str, labels: dict[str, str], port: int, *, headless: bool = False) -> dict[str, Any]:
    """A service for the pods of these labels."""
    spec: dict[str, Any] = {"selector": labels, "ports": [{"port": port}]}
    if headless:
        spec["clusterIP"] = "None"
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
