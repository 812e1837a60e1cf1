"""What `make cluster` prints, done as it is printed, by somebody who has neither kubectl nor helm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from charts import NAMESPACE, ROOT, Release, helm

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.fixture
def empty(cluster: Cluster, kubernetes: Kubectl) -> Iterator[Release]:
    """The cluster without the chart, and without its kinds."""
    helm()
    found = Release(kubernetes.kubeconfig)
    found.uninstall()
    kubernetes("delete", "namespace", NAMESPACE, "--ignore-not-found")
    kinds = [
        each for each in kubernetes("get", "crd", "-o", "name").split() if each.endswith(".data.fluid.io")
    ]
    if kinds:
        kubernetes("delete", *kinds)
    yield found
    found.uninstall()
    kubernetes("delete", "namespace", NAMESPACE, "--ignore-not-found")


def _cluster_command(cluster: Cluster, verb: str) -> str:
    words = (sys.executable, "-m", "headrace.testing.kubernetes", verb, "--folder", str(cluster.folder))
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_printed_commands_install_the_chart_with_images_of_the_checkout(
    cluster: Cluster, kubernetes: Kubectl, empty: Release
) -> None:
    _cluster_command(cluster, "load")
    script = _cluster_command(cluster, "status")
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"]}
    done = subprocess.run(
        ["bash", "-ec", script], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "successfully rolled out" in done.stdout
    pods = kubernetes.get("-n", NAMESPACE, "pods")["items"]
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    assert images == {"headrace/operator:test", "headrace/engine:test"}
