"""What training jobs of the tests need of a cluster: the real MPI operator, and an image with Debian's Open MPI.

Both images are made without a registry. The operator is built by tools/install_mpi_operator.sh.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from headrace.settings.environment import Environment
from headrace.testing.kubernetes.build_images import CHECKOUT, TAG
from headrace.testing.kubernetes.debian_root import PACKAGES, root_tar
from headrace.testing.kubernetes.images import image_tar
from headrace.testing.kubernetes.kubectl import Kubectl

JOB_IMAGE = f"headrace/test-mpi:{TAG}"
"""Open MPI, sshd, Python and a shell."""
OPERATOR_NAMESPACE = "mpi-operator"
_OPERATOR_IMAGE = f"headrace/test-mpi-operator:{TAG}"
_JOB_PACKAGES = (*PACKAGES, "openmpi-bin", "openssh-client", "openssh-server")
_BUILDER = CHECKOUT / "tools" / "install_mpi_operator.sh"


def operator_folder() -> Path:
    """Where the operator and its kinds are, built now if they are not there (three minutes)."""
    done = subprocess.run([_BUILDER], capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode != 0:
        raise RuntimeError(f"the MPI operator cannot be built: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def job_image(folder: Path) -> Path:
    """The archive of `JOB_IMAGE` in this folder; what was made before is used again."""
    root = root_tar(Environment.current().cache_directory / "images", _JOB_PACKAGES)
    return _once(folder / f"headrace-test-mpi-{root.stem}.tar", "headrace/test-mpi", root, ())


def operator_image(folder: Path) -> Path:
    """The archive of the operator: one program without anything beside it."""
    program = operator_folder() / "mpi-operator"
    tar = folder / f"headrace-test-{program.parent.name}.tar"
    with tempfile.TemporaryDirectory(dir=folder) as made:
        root = Path(made)
        root.chmod(0o755)
        shutil.copy(program, root / "mpi-operator")
        return _once(tar, "headrace/test-mpi-operator", root, ("/mpi-operator",))


def _once(tar: Path, name: str, root: Path, entrypoint: tuple[str, ...]) -> Path:
    return tar if tar.exists() else image_tar(name, TAG, [root], to=tar, entrypoint=entrypoint)


def install_operator(kubectl: Kubectl) -> None:
    """The kinds of jobs and the MPI operator, ready. Its image must be on the nodes."""
    kinds, rights = _files()
    kubectl("apply", "--server-side", "--force-conflicts", *kinds, *rights)
    kubectl("wait", "--for=condition=Established", *kinds, "--timeout=60s")
    kubectl.apply(*_objects())
    kubectl(
        *("-n", OPERATOR_NAMESPACE, "rollout", "status", "deployment/mpi-operator", "--timeout=120s"),
        timeout_s=150,
    )


def uninstall_operator(kubectl: Kubectl) -> None:
    """Takes away what `install_operator` brought, and all jobs."""
    kinds, rights = _files()
    kubectl("delete", "--ignore-not-found", *kinds, *rights, timeout_s=180)
    kubectl("delete", "--ignore-not-found", "clusterrolebinding", "mpi-operator")
    kubectl("delete", "--ignore-not-found", "namespace", OPERATOR_NAMESPACE, timeout_s=180)


def _files() -> tuple[list[str], list[str]]:
    """Words for kubectl: the kinds, and the operator's rights."""
    folder = operator_folder()
    names = [f"kubeflow.org_{kind}.yaml" for kind in ("mpijobs", "pytorchjobs", "tfjobs")]
    return [f"--filename={folder / name}" for name in names], [f"--filename={folder / 'cluster-role.yaml'}"]


def _objects() -> list[dict[str, Any]]:
    place = {"name": "mpi-operator", "namespace": OPERATOR_NAMESPACE}
    labels = {"app": "mpi-operator"}
    container = {
        "name": "operator",
        "image": _OPERATOR_IMAGE,
        "imagePullPolicy": "Never",
        "args": [f"--lock-namespace={OPERATOR_NAMESPACE}", "--kube-api-qps=50", "--kube-api-burst=100"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
    }
    pod = {"serviceAccountName": "mpi-operator", "containers": [container]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}},
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
