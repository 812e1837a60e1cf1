"""The chart on a cluster of the tests, with images of this checkout."""

from __future__ import annotations

from charts import NAMESPACE

from headrace.testing.kubernetes.kubectl import Kubectl

ROLLED_OUT = (
    *("deployment/headrace-operator", "deployment/headrace-webhook", "deployment/headrace-jobs"),
    "daemonset/headrace-csi",
)


def wait_until_ready(kubectl: Kubectl, *names: str) -> None:
    """Returns when these workloads of the chart are rolled out."""
    for name in names:
        kubectl("-n", NAMESPACE, "rollout", "status", name, "--timeout=420s", timeout_s=450)
