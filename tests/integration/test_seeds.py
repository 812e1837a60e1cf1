"""The documents that Headrace follows, on four virtual nodes, with `headrace` in the place of `kubectl`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from seed_backends import DEADLINE_S, FILES, LABEL, NODES, Desk, fill_nfs, fill_oss, fill_s3
from seed_documents import SeedDocuments

from headrace.testing.nfs_server import NfsServer
from headrace.testing.oss_server import OssServer
from headrace.testing.s3_server import S3Server

from .harness import Shell, tree_of

KINDS = "dataset,alluxioruntime,jindoruntime,pv,pvc,secret"


class LocalDesk(Desk):
    """`headrace` on a machine that is all four nodes."""

    def __init__(self, shell: Shell, folder: Path, state: Path) -> None:
        super().__init__(folder)
        self.shell = shell
        nodes = state / "local" / "nodes"
        self._mounts = [nodes / f"node-{number}" / "mounts" / "default" for number in range(1, NODES + 1)]

    def run(self, *words: str) -> str:
        return self.shell.must(*words, deadline_s=2 * DEADLINE_S).stdout

    def write(self, file: str, printed: str, **words: str) -> None:
        super().write(file, printed, **words)
        if os.geteuid() != 0:
            path = self.folder / file
            path.write_text(path.read_text().replace("/var/lib/docker", str(self.folder)))

    def delete(self, dataset: str) -> None:
        # Not as anybody would write it, and as the document does. The runtime goes with its dataset, as in Fluid.
        self.say(f"delete -f dataset {dataset}")
        self.shell.run("delete", "-f", "jindoruntime", dataset)

    def read(self, dataset: str, folder: str) -> None:
        for mounts in self._mounts:
            assert tree_of(mounts / dataset / folder) == FILES

    def expect_nothing(self, dataset: str) -> None:
        kinds = "dataset,alluxioruntime,jindoruntime,pv,pvc"
        assert "No resources" in self.shell.run("get", kinds).talk
        assert not any((mounts / dataset).is_mount() for mounts in self._mounts)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDesk]:
    """`headrace up --nodes 4` with the label of the documents' nodes."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "run").mkdir(mode=0o700)
    own = {"HEADRACE_STATE_DIR": str(folder / "state"), "HEADRACE_RUNTIME_DIR": str(folder / "run")}
    shell = Shell(folder, own)
    shell.must("up", "--nodes", str(NODES), "--node-label", LABEL)
    try:
        yield LocalDesk(shell, folder, folder / "state")
    finally:
        shell.must("down")


@pytest.fixture(scope="module")
def oss() -> Iterator[OssServer]:
    with OssServer() as server:
        fill_oss(server)
        yield server


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "objects", state=tmp_path / "server") as server:
        fill_s3(server)
        yield server


@pytest.fixture
def nfs(tmp_path: Path) -> Iterator[NfsServer]:
    with NfsServer(tmp_path / "export", state=tmp_path / "server") as server:
        fill_nfs(server)
        yield server


@pytest.fixture(autouse=True)
def nothing_stays(desk: LocalDesk) -> Iterator[None]:
    """What the documents' own commands left of a dataset; a test that passes leaves nothing."""
    yield
    desk.shell.run("delete", KINDS, "--all")
    assert "No resources" in desk.shell.run("get", KINDS).talk


class TestOnVirtualNodes(SeedDocuments):
    """Each document, from its first command to its last."""
