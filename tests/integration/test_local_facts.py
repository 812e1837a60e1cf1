"""What a virtual node has: taints that are taken away, and a disk that is smaller than the seeds' quota."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.netns.namespaces import can_make_namespaces
from headrace.testing.made_files import MadeFiles

from .harness import Shell

DEADLINE_S = 120.0
DISK_BYTES = 40 << 20
FILES = MadeFiles({f"part-{number}.bin": partial(os.urandom, 16 << 20) for number in range(4)})
DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: imagenet}}
spec: {{mounts: [{{mountPoint: "local://{source}", name: imagenet}}]}}
---
apiVersion: data.fluid.io/v1alpha1
kind: JindoRuntime
metadata: {{name: imagenet}}
spec:
  replicas: 2
  tieredstore: {{levels: [{{mediumtype: SSD, path: {disk}, quota: 180G, high: "0.99", low: "0.8"}}]}}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one."""
    if not can_make_namespaces():
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "small", folder], check=True, capture_output=True
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)


@pytest.fixture
def backend(disk: Path, tmp_path: Path) -> Iterator[Shell]:
    """Two nodes, of which one is tainted."""
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    own = {"HEADRACE_STATE_DIR": str(tmp_path / "state"), "HEADRACE_RUNTIME_DIR": str(home / "run")}
    shell = Shell(home, own)
    shell.must("up", "--nodes", "2", "--node-taint", "node-2:gpu=v100:NoSchedule")
    try:
        yield shell
    finally:
        shell.must("down")


def eventually(what: Callable[[], bool], shell: Shell) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        if time.monotonic() > deadline:
            told = [shell.run(*words.split()).talk for words in ("describe dataset", "logs imagenet")]
            raise AssertionError("\n".join(told))
        time.sleep(0.2)


def status(shell: Shell, kind: str) -> dict[str, Any]:
    client = LocalClient(BackendLayout(Path(shell.environment["HEADRACE_STATE_DIR"]) / "local"))
    (found,) = client.objects([kind], namespace="default").items
    return dict(found.get("status") or {})


def condition(shell: Shell, name: str) -> str:
    """`True NodesTainted`, with the sentence."""
    found = status(shell, "Dataset").get("conditions", [])
    words = (f"{each['status']} {each['reason']} {each['message']}" for each in found if each["type"] == name)
    return next(words, "")


def test_a_quota_beyond_the_disk_and_a_tainted_node_are_told_and_reads_are_right(
    backend: Shell, disk: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name, content in FILES.items():
        (source / name).write_bytes(content)
    (tmp_path / "dataset.yaml").write_text(DATASET.format(source=source, disk=disk))
    backend.must("apply", "-f", tmp_path / "dataset.yaml")
    eventually(lambda: status(backend, "Dataset").get("phase") == "Bound", backend)
    assert condition(backend, "CacheOvercommitted").startswith(
        "True QuotaLargerThanDisk on node-1: the quotas of 1 worker"
    )
    assert condition(backend, "Degraded").startswith("True NodesTainted")

    backend.must("taint", "nodes", "node-2", "gpu-")
    eventually(lambda: status(backend, "JindoRuntime").get("workerNumberReady") == 2, backend)
    eventually(
        lambda: "2 workers together are 324.00GiB" in condition(backend, "CacheOvercommitted"), backend
    )

    expected = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    for node in ("node-1", "node-2"):
        mountpoint = tmp_path / "state" / "local" / "nodes" / node / "mounts" / "default" / "imagenet"
        eventually(mountpoint.is_mount, backend)
        folder = mountpoint / "imagenet"
        assert {
            each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()
        } == expected
    room = os.statvfs(disk)
    assert room.f_bavail * room.f_frsize < DISK_BYTES / 4, "the cache holds what fits"
    assert status(backend, "Dataset")["phase"] == "Bound"
    restarts = json.loads(backend.must("status", "--local", "--json").stdout)["roles"]
    assert {each["id"]: each["restarts"] for each in restarts if each["restarts"]} == {}
