"""A dataset on an NFS server that is started anew: programs wait, and no read fails."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import nfs_server
from headrace.testing.nfs_server import NfsServer

from .declared import RUNTIME, Backend, backend, level

LACKING = nfs_server.lacking()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING)
AWAY_S = 8.0
YAML = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: shared, namespace: default}}
spec:
  mounts: [{{mountPoint: "{uri}", name: nfs}}]
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Backend]:
    with backend(tmp_path, nodes=1, plain=True) as running:
        yield running


@pytest.fixture
def nfs(tmp_path: Path) -> Iterator[NfsServer]:
    with NfsServer(tmp_path / "export", state=tmp_path / "server") as running:
        yield running


def test_reads_wait_for_a_server_that_is_started_anew(made: Backend, nfs: NfsServer) -> None:
    """Longer than an origin is tried by default, which is a few seconds."""
    content = {f"file-{number}": random.Random(number).randbytes(1_000_000) for number in range(12)}
    for name, data in content.items():
        (nfs.export / name).write_bytes(data)
    levels = level(made.folder / "cache")
    names = {"name": "shared", "namespace": "default"}
    made.apply(YAML.format(uri=nfs.uri), RUNTIME.format(workers=1, copies=1, levels=levels, **names))
    made.eventually(lambda: made.is_bound("shared", 1), "shared")
    folder = made.mountpoint("shared") / "nfs"
    made.eventually(folder.is_dir, "shared")
    assert (folder / "file-0").read_bytes() == content["file-0"]

    nfs.kill()
    read: dict[str, bytes] = {}
    reader = threading.Thread(
        target=lambda: read.update({name: (folder / name).read_bytes() for name in content})
    )
    reader.start()
    time.sleep(AWAY_S)
    assert reader.is_alive()
    nfs.start()
    reader.join(120)
    assert read == content
