"""What old kinds of jobs are, from those who serve them: files of their Go modules, fetched once and compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from headrace.jobs.spec import (
    CleanPolicy,
    CodeSync,
    ConfigFile,
    DataVolume,
    HostFolder,
    Resources,
    Role,
    RoleName,
    Toleration,
)

# The last release of the operator that served it; v0.2.2 serves v1alpha2.
OPERATOR = ("github.com/kubeflow/mpi-operator@v0.2.1", "h1:0dX6GKaxrulTJWvptXeCpBvr0IjSW877ooTzhm7+C7A=")
# Arena brings an operator of its own, which serves it to this day with other fields.
ARENA = ("github.com/kubeflow/arena@v0.15.5", "h1:dZOfQoehHvrnjqFz35zUS9UoN8YF40rcYHhMFNJ7PRY=")


EVERYTHING: dict[str, Any] = {
    "data": (DataVolume(claim="imagenet", path="/data", sub_path="train", read_only=True),),
    "host_folders": (HostFolder(host_path="/mnt/jfs/test", path="/jfs"),),
    "config_files": (ConfigFile(path="/etc/a.yaml", content=SecretStr("a: 1")),),
    "environment": {"DATA_DIR": "/data", "API_TOKEN": "hunter2"},
    "tolerations": (Toleration(operator="Exists"), Toleration(key="gpu", effect="NoSchedule")),
    "selector": {"disk": "ssd"},
    "labels": {"team": "vision"},
    "annotations": {"note": "x"},
    "image_pull_secrets": ("pull",),
    "code": CodeSync(mode="git", source="https://host/models.git"),
    "priority_class": "high",
    "scheduler": "volcano",
    "gang": True,
    "rdma": True,
    "host_network": True,
    "host_ipc": True,
    "host_pid": True,
    "mounts_on_launcher": True,
    "retries": 2,
    "clean_policy": CleanPolicy.RUNNING,
    "roles": (
        Role(name=RoleName.LAUNCHER, replicas=1),
        Role(
            name=RoleName.WORKER,
            replicas=4,
            affinity_policy="spread",
            resources=Resources(cpu="4", memory="8Gi", gpus=8, devices={"amd.com/gpu": 1}),
        ),
    ),
}
"""All that can be asked for of an MPIJob."""


def arena_crd() -> Path:
    """The kind as Arena installs it, with a schema for every field."""
    return _module(*ARENA) / "arena-artifacts" / "crds" / "kubeflow.org_mpijobs.yaml"


def operator_crd() -> Path:
    """The kind as the operator installed it, of a time when schemas had but a few fields."""
    return _module(*OPERATOR) / "deploy" / "crd" / "crd-v1alpha1.yaml"


def operator_types() -> Path:
    """All fields that the operator reads, in Go."""
    return _module(*OPERATOR) / "pkg" / "apis" / "kubeflow" / "v1alpha1" / "types.go"


def _module(name: str, checksum: str) -> Path:
    """The folder of a Go module. Skips the test where it cannot be had."""
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        pytest.skip("needs Go, to fetch a module")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [go, "mod", "download", "-json", name],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    found = json.loads(done.stdout or "{}")
    if "Dir" not in found:
        pytest.skip(f"{name} cannot be fetched: {found.get('Error') or done.stderr}")
    assert found["Sum"] == checksum
    return Path(found["Dir"])


def arena_training_crd(plural: str) -> Path:
    """A kind of the operators before the training operator, as Arena installs it: `pytorchjobs`, `tfjobs`."""
    return _module(*ARENA) / "arena-artifacts" / "crds" / f"kubeflow.org_{plural}.yaml"
