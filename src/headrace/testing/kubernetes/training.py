"""The needs of the tests' training jobs in a cluster: the real MPI operator, and an image with Debian's Open MPI.

Both images are made without a registry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.settings.environment import Environment
from headrace.testing.kubernetes.build_images import TAG
from headrace.testing.kubernetes.debian_root import PACKAGES, root_tar
from headrace.testing.kubernetes.images import image_tar
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.kubeflow_programs import MPI_OPERATOR, operator_folder, operator_image_name

JOB_IMAGE = f"headrace/test-mpi:{TAG}"
"""Open MPI, sshd, Python and a shell."""
_JOB_PACKAGES = (*PACKAGES, "openmpi-bin", "openssh-client", "openssh-server")


def job_image(folder: Path) -> Path:
    """The archive of `JOB_IMAGE` in this folder; what was made before is used again."""
    root = job_root()
    tar = folder / f"headrace-test-mpi-{root.stem}.tar"
    return tar if tar.exists() else image_tar("headrace/test-mpi", TAG, [root], to=tar)


def job_root() -> Path:
    """The only layer of `JOB_IMAGE`."""
    return root_tar(Environment.current().cache_directory / "images", _JOB_PACKAGES)


def install_operator(kubectl: Kubectl) -> None:
    """The kind of its jobs and the MPI operator, ready. Its image must be on the nodes."""
    kind, rights = _files()
    kubectl("apply", "--server-side", "--force-conflicts", kind, rights)
    kubectl.wait_until_established(kind)
    kubectl.apply(*_objects())
    kubectl(
        *("-n", MPI_OPERATOR, "rollout", "status", "deployment/mpi-operator", "--timeout=300s"),
        timeout_s=330,
    )


def uninstall_operator(kubectl: Kubectl) -> None:
    """Takes away what `install_operator` brought, and all its jobs."""
    kind, rights = _files()
    kubectl("delete", "--ignore-not-found", kind, rights, timeout_s=330)
    kubectl("delete", "--ignore-not-found", "clusterrolebinding", "mpi-operator")
    kubectl("delete", "--ignore-not-found", "namespace", MPI_OPERATOR, timeout_s=330)


def _files() -> tuple[str, str]:
    """Words for kubectl: the kind, and the operator's rights."""
    manifests = operator_folder(MPI_OPERATOR) / "manifests" / "base"
    return (
        f"--filename={manifests / 'kubeflow.org_mpijobs.yaml'}",
        f"--filename={manifests / 'cluster-role.yaml'}",
    )


def _objects() -> list[dict[str, Any]]:
    place = {"name": "mpi-operator", "namespace": MPI_OPERATOR}
    labels = {"app": "mpi-operator"}
    container = {
        "name": "operator",
        "image": operator_image_name(MPI_OPERATOR),
        "imagePullPolicy": "Never",
        "args": [f"--lock-namespace={MPI_OPERATOR}", "--kube-api-qps=50", "--kube-api-burst=100"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
    }
    pod = {"serviceAccountName": "mpi-operator", "containers": [container]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MPI_OPERATOR}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "mpi-operator"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "mpi-operator",
            },
            "subjects": [{"kind": "ServiceAccount", **place}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": place,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]
