"""What the MPIJob of v1alpha1 is, from those who served it: files of their Go modules, fetched once and compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

# The last release of the operator that served it; v0.2.2 serves v1alpha2.
OPERATOR = ("github.com/kubeflow/mpi-operator@v0.2.1", "h1:0dX6GKaxrulTJWvptXeCpBvr0IjSW877ooTzhm7+C7A=")
# Arena brings an operator of its own, which serves it to this day with other fields.
ARENA = ("github.com/kubeflow/arena@v0.15.5", "h1:dZOfQoehHvrnjqFz35zUS9UoN8YF40rcYHhMFNJ7PRY=")


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
