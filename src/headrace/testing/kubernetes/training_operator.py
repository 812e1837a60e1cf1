"""The real training operator of Kubeflow on a cluster: PyTorchJobs, TFJobs, and MPIJobs of v1.

It is installed by its own manifests. The images that it puts into pods by itself are made here, without a registry.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.settings.yaml_streams import read_stream, write_stream
from headrace.testing.kubernetes.build_images import TAG
from headrace.testing.kubernetes.images import image_tar
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.kubeflow_programs import (
    TRAINING_OPERATOR,
    operator_folder,
    operator_image,
    operator_image_name,
)
from headrace.testing.kubernetes.programs import program
from headrace.testing.kubernetes.training import JOB_IMAGE, job_root

NAMESPACE = "kubeflow"
_DELIVERY = "test-kubectl-delivery"
# Its own default wants `nslookup`, which Debian has in a package of its own.
_WAITING = """
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: Never
  command: ['sh', '-c', 'until getent hosts {{.MasterAddr}}; do sleep 1; done']
"""
_SETTINGS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "training-operator-config", "namespace": NAMESPACE},
    "data": {"initContainer.yaml": _WAITING},
}


def training_operator_images(folder: Path) -> tuple[Path, ...]:
    """The archives in this folder: the operator, and what brings `kubectl` into launchers of MPI."""
    return operator_image(TRAINING_OPERATOR, folder), _delivery_image(folder)


def _delivery_image(folder: Path) -> Path:
    kubectl, root = Path(program("kubectl")), job_root()
    to = folder / f"headrace-{_DELIVERY}-{kubectl.parent.name}-{root.stem}.tar"
    if to.exists():
        return to
    with tempfile.TemporaryDirectory(dir=folder) as made:
        layer = Path(made)
        layer.chmod(0o755)
        (layer / "kubectl").write_bytes(kubectl.read_bytes())
        (layer / "kubectl").chmod(0o755)
        copy = ("cp", "/kubectl", "/opt/kube/kubectl")
        return image_tar(f"headrace/{_DELIVERY}", TAG, [root, layer], to=to, entrypoint=copy)


def install_training_operator(kubectl: Kubectl) -> None:
    """The kinds of its jobs and the operator, ready. Its images must be on the nodes."""
    objects = list(_objects(kubectl))
    kinds = [each for each in objects if each["kind"] in ("CustomResourceDefinition", "Namespace")]
    kubectl.apply(*kinds)
    for kind in kinds:
        if kind["kind"] == "CustomResourceDefinition":
            kubectl.wait_until_established(f"crd/{kind['metadata']['name']}")
    kubectl.apply(_SETTINGS, *(each for each in objects if each not in kinds))
    words = ("rollout", "status", f"deployment/{TRAINING_OPERATOR}", "--timeout=300s")
    kubectl("-n", NAMESPACE, *words, timeout_s=330)


def uninstall_training_operator(kubectl: Kubectl) -> None:
    """Takes away what `install_training_operator` brought, and all its jobs."""
    shown = write_stream([_SETTINGS, *_objects(kubectl)])
    kubectl("delete", "--ignore-not-found", "-f", "-", stdin=shown, timeout_s=330)


def _objects(kubectl: Kubectl) -> Iterator[dict[str, Any]]:
    """Its manifests, with images that are there and a probe that does not wait."""
    folder = operator_folder(TRAINING_OPERATOR) / "manifests" / "overlays" / "standalone"
    for document in read_stream(kubectl("kustomize", str(folder)), str(folder)):
        found: dict[str, Any] = document.content
        if found["kind"] == "Deployment":
            pod = found["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            container |= {
                "image": operator_image_name(TRAINING_OPERATOR),
                "imagePullPolicy": "Never",
                "command": [f"/{TRAINING_OPERATOR}"],
                "args": [
                    f"--pytorch-init-container-image={JOB_IMAGE}",
                    f"--mpi-kubectl-delivery-image=headrace/{_DELIVERY}:{TAG}",
                    *("--kube-api-qps=50", "--kube-api-burst=100"),
                ],
            }
            container["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
            settings = _SETTINGS["metadata"]["name"]
            container["volumeMounts"].append({"name": "settings", "mountPath": "/etc/config"})
            pod["volumes"].append({"name": "settings", "configMap": {"name": settings}})
        yield found
