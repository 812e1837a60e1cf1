"""A TensorBoard beside a job: a Deployment that reads the job's log folder, and its Service."""

from __future__ import annotations

from typing import Any

from headrace.jobs.naming import own_labels, part_metadata, tensorboard_name
from headrace.jobs.pod_volumes import volume_of_folder
from headrace.jobs.spec import JobSpec

Content = dict[str, Any]

IMAGE = "tensorflow/tensorflow:2.19.0"
PORT = 6006


def tensorboard_objects(spec: JobSpec) -> list[Content]:
    """Both objects; none when no TensorBoard is wished. The Service is reached from inside of the cluster alone."""
    if spec.tensorboard is None:
        return []
    name = tensorboard_name(spec.name)
    # No label of the job's own pods may fit these.
    labels = {"app": "tensorboard", "release": spec.name, "app.kubernetes.io/component": "tensorboard"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": part_metadata(spec, name),
        "spec": {"selector": labels, "ports": [{"name": "http", "port": PORT, "targetPort": PORT}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": part_metadata(spec, name),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": _pod_labels(spec) | labels}, "spec": _pod(spec)},
        },
    }
    return [deployment, service]


def _pod_labels(spec: JobSpec) -> dict[str, str]:
    own = own_labels(spec.name, spec.kind)
    return {key: value for key, value in own.items() if key.startswith("app.kubernetes.io/")}


def _pod(spec: JobSpec) -> Content:
    folder = spec.tensorboard.log_dir if spec.tensorboard else ""
    volumes = volume_of_folder(spec, folder)
    container = {
        "name": "tensorboard",
        "image": (spec.tensorboard.image if spec.tensorboard else "") or IMAGE,
        "command": ["tensorboard", "--logdir", folder, "--host", "0.0.0.0", "--port", str(PORT)],  # noqa: S104
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}},
        "volumeMounts": [mount | {"readOnly": True} for mount in volumes.mounts],
    }
    found: Content = {
        "containers": [container],
        "volumes": list(volumes.volumes),
        "automountServiceAccountToken": False,
    }
    secrets = [{"name": name} for name in spec.image_pull_secrets]
    return found | ({"imagePullSecrets": secrets} if secrets else {})
