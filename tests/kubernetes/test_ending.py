"""Pods of Headrace end when they are told to, also while they have only just begun."""

from __future__ import annotations

import json
from typing import Any

from headrace.testing.kubernetes.build_images import build_images
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl

from .objects import pod

HELD = "headrace.io/test"
SILENT = """
    python3 -uc '
    import socket
    server = socket.create_server(("", 8700))
    talks = [server.accept() for _ in [0]]
    print("asked")
    talks.append(server.accept())
    '
"""


def test_a_mount_that_waits_for_its_master_ends_at_once_and_is_not_killed(
    kubernetes: Kubectl, cluster: Cluster, namespace: str, tools: str
) -> None:
    cluster.load_image(build_images().engine)
    kubernetes.apply(pod("master", tools, SILENT), namespace=namespace)
    kubernetes.wait(lambda: bool(_status(kubernetes, namespace, "master").get("podIP")), "an address")
    address = _status(kubernetes, namespace, "master")["podIP"]
    kubernetes.apply(_mount(f"http://{address}:8700"), namespace=namespace)
    kubernetes.wait(lambda: "asked" in kubernetes("-n", namespace, "logs", "master"), "a mount that waits")
    kubernetes("-n", namespace, "delete", "pod", "mount", "--wait=false")
    kubernetes.wait(lambda: bool(_end(kubernetes, namespace)), "the end of its container")
    ended = _end(kubernetes, namespace)
    change = json.dumps({"metadata": {"finalizers": None}})
    kubernetes("-n", namespace, "patch", "pod", "mount", "--type=merge", "-p", change)
    assert ended["exitCode"] == 128 + 15, "it went on when it was told to end"


def _mount(master: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "headrace/engine:test",
        "imagePullPolicy": "Never",
        "args": ["mount", "--cluster", master, "/mnt"],
        # As mounts are: for /dev/fuse.
        "securityContext": {"privileged": True},
        "env": [{"name": "HEADRACE_TOKEN", "value": "of-nobody-" * 5}],
    }
    # Held, so that its end can be read once it has ended.
    metadata = {"name": "mount", "finalizers": [HELD]}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 60}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _status(kubernetes: Kubectl, namespace: str, name: str) -> dict[str, Any]:
    return dict(kubernetes.get("-n", namespace, "pod", name).get("status", {}))


def _end(kubernetes: Kubectl, namespace: str) -> dict[str, Any]:
    (container,) = _status(kubernetes, namespace, "mount")["containerStatuses"]
    return dict(container["state"].get("terminated", {}))
