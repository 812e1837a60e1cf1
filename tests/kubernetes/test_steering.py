"""The webhook as the chart installs it, with a dataset that the operator has brought up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from charts import NAMESPACE, Release
from datasets_on_kubernetes import (
    Bucket,
    HostLink,
    as_list,
    delete_pods,
    metrics_of,
    parts_of,
    reader,
    runtime,
)

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.s3_server import S3Server
from headrace.webhook.affinity import PREFERRED, REQUIRED
from headrace.webhook.node_preference import HOST_LABEL, SKIP_LABEL, WEIGHT, scheduling_label

pytestmark = [pytest.mark.root, pytest.mark.slow]

MUST = {scheduling_label("imagenet"): "required"}
_ASKED = 4


@pytest.fixture
def home(
    cluster: Cluster, kubernetes: Kubectl, release: Release, namespace: str, tmp_path_factory: Any
) -> Iterator[str]:
    """The one node that holds data of a dataset."""
    folder = tmp_path_factory.mktemp("s3")
    with S3Server(folder / "buckets", state=folder / "state", link=HostLink(cluster.host_address)) as server:
        bucket = Bucket(server)
        bucket.fill(count=4)
        objects = (bucket.secret(), bucket.dataset(), runtime(replicas=1))
        kubernetes("-n", namespace, "create", "-f", "-", stdin=as_list(*objects))
        bound = ("wait", "dataset/imagenet", "--for=jsonpath={.status.phase}=Bound", "--timeout=300s")
        kubernetes("-n", namespace, *bound)
        (worker,) = parts_of(kubernetes, namespace, "worker")
        yield worker["spec"]["nodeName"]
        kubernetes("-n", namespace, "delete", "deployments", "--all", "--cascade=foreground")
        delete_pods(kubernetes, namespace)
        kubernetes("-n", namespace, "delete", "dataset", "--all", "--timeout=300s", timeout_s=330)


def _on(node: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": [node]}]}


def _affinity(kubernetes: Kubectl, namespace: str, pod: dict[str, Any]) -> Any:
    """The node affinity that the pod would be created with."""
    words = ("create", "-n", namespace, "--dry-run=server", "-o", "json", "-f", "-")
    created = json.loads(kubernetes(*words, stdin=json.dumps(pod)))
    return created["spec"].get("affinity", {}).get("nodeAffinity")


def _pod(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    pod = reader("train")
    pod["metadata"]["labels"] = labels or {}
    pod["spec"] |= spec
    return pod


def _is_steered(kubernetes: Kubectl, namespace: str, pod: dict[str, Any], wanted: object) -> bool:
    """By whichever replica is asked: each of them sees datasets and claims by itself."""
    return all(_affinity(kubernetes, namespace, pod) == wanted for _ in range(_ASKED))


def _count(kubernetes: Kubectl, result: str) -> int:
    """How often the replicas that live now say that they answered so."""
    pods = parts_of(kubernetes, NAMESPACE, "webhook")
    return int(
        sum(metrics_of(kubernetes, pod, 8080)["headrace_webhook_answers_total", result] for pod in pods)
    )


@pytest.mark.short
def test_pods_of_a_dataset_are_steered_others_are_left_alone_and_nobody_waits_for_a_webhook_that_is_away(
    kubernetes: Kubectl, home: str, namespace: str
) -> None:
    preferred = {PREFERRED: [{"weight": WEIGHT, "preference": _on(home)}]}
    kubernetes.wait(lambda: _is_steered(kubernetes, namespace, _pod(), preferred), "a preference")
    must = {REQUIRED: {"nodeSelectorTerms": [_on(home)]}}
    kubernetes.wait(lambda: _is_steered(kubernetes, namespace, _pod(MUST), must), "a must")
    _deployments_run_at_home_and_are_not_changed_themselves(kubernetes, namespace, home)

    asked = _count(kubernetes, "steered") + _count(kubernetes, "unchanged")
    assert _count(kubernetes, "steered") >= 3
    left_alone = {
        "that do not want to": _pod({SKIP_LABEL: "false"}),
        "that have a node": _pod(MUST, nodeName="node-2"),
        "without a claim": _pod(MUST, volumes=[{"name": "data", "emptyDir": {}}]),
    }
    for which, pod in left_alone.items():
        assert _affinity(kubernetes, namespace, pod) is None, which
    assert _affinity(kubernetes, NAMESPACE, _pod()) is None
    assert _count(kubernetes, "steered") + _count(kubernetes, "unchanged") == asked, "it was not even asked"

    scale = ("-n", NAMESPACE, "scale", "deployment/headrace-webhook")
    kubernetes(*scale, "--replicas=0")
    kubernetes.wait(lambda: not parts_of(kubernetes, NAMESPACE, "webhook"), "no webhook")
    assert _affinity(kubernetes, namespace, _pod(MUST)) is None
    kubernetes(*scale, "--replicas=2")
    kubernetes.wait(lambda: _affinity(kubernetes, namespace, _pod()) == preferred, "steered again")


def _deployments_run_at_home_and_are_not_changed_themselves(
    kubernetes: Kubectl, namespace: str, home: str
) -> None:
    """Two pods on one node, which the scheduler by itself would keep apart."""
    labels = {"app": "train", **MUST}
    pod = _pod(labels)
    del pod["spec"]["restartPolicy"]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "train"}},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }
    kubernetes.apply(deployment, namespace=namespace)
    kubernetes("-n", namespace, "rollout", "status", "deployment/train", "--timeout=300s", timeout_s=330)
    template = kubernetes.get("-n", namespace, "deployment", "train")["spec"]["template"]
    assert "affinity" not in template["spec"]
    pods = kubernetes.get("-n", namespace, "pods", "-l", "app=train")["items"]
    assert [each["spec"]["nodeName"] for each in pods] == [home, home]
