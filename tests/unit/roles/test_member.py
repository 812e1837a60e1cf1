"""What a mount tells its master of its traffic, and how it follows it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import cluster_double
import pytest
from masters import ORIGINS, TOKEN, Running, until, with_master

from headrace.control.client import ControlClient
from headrace.control.messages import Traffic
from headrace.engine import native
from headrace.engine.handles import Engine
from headrace.engine.status import ReadReport
from headrace.errors import NoSpaceError
from headrace.roles.cluster.follower import Follower, traffic_of
from headrace.roles.messages import MemberSpec
from headrace.settings.cluster import ClusterConfig
from headrace.settings.engine import EngineConfig


def test_bytes_of_workers_on_other_nodes_are_told_apart() -> None:
    assert traffic_of(ReadReport(hit_bytes=60, miss_bytes=50, cluster_bytes=40)) == Traffic(
        local_bytes=70, peer_bytes=40
    )


def test_what_the_kernel_reads_itself_is_local() -> None:
    reads = ReadReport(miss_bytes=50, cluster_bytes=80, passthrough_opens=2, passthrough_estimated_bytes=600)
    assert traffic_of(reads) == Traffic(local_bytes=600, peer_bytes=50)


class Followed:
    """A mount's engine as far as its follower needs it. While there are faults, adopting a list raises the next one."""

    def __init__(self, folder: Path, *faults: Exception) -> None:
        self.state_directory = folder
        self.adopted = 0
        self._faults = list(faults)

    def set_view(self, _: str) -> None: ...

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(reads=ReadReport())

    def adopt_snapshot(self) -> SimpleNamespace:
        if self._faults:
            raise self._faults.pop(0)
        self.adopted += 1
        return SimpleNamespace(version=self.adopted, files=3)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The double of a master's engine, whose origins are those of the mount."""
    made: SimpleNamespace = cluster_double.make_module()
    monkeypatch.setattr(made.Lister, "origins", lambda _: [(each.path, each.label) for each in ORIGINS])
    monkeypatch.setattr(native, "load", lambda: made)
    return made


def following(engine: Followed, master: Running) -> Follower:
    folder, nobody = engine.state_directory, {"epoch": 0, "replicas": 1, "members": []}
    config = EngineConfig(
        name="shop",
        origins=ORIGINS,
        state_directory=folder,
        cluster=ClusterConfig(view=nobody, token=TOKEN, node="n"),
    )
    member = MemberSpec(master=master.url, mount_id="m")
    return Follower(cast("Engine", engine), member, config, folder.parent / "mnt", lambda: None)


@pytest.mark.usefixtures("module")
def test_a_mount_whose_folder_takes_no_snapshot_for_a_while_follows_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Followed(tmp_path / "mount")

    async def test(master: Running, client: ControlClient) -> None:
        with following(engine, master):
            await until(lambda: engine.adopted == 1)
            engine.state_directory.rename(tmp_path / "aside")
            engine.state_directory.touch()
            await client.refresh()
            await until(lambda: "snapshot 2" in caplog.text)
            assert engine.adopted == 1
            engine.state_directory.unlink()
            await until(lambda: engine.adopted == 2)

    with_master(tmp_path / "master", test)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    "fault", [NoSpaceError.of("no room"), RuntimeError("planted")], ids=["ours", "not ours"]
)
def test_a_list_that_a_mount_could_not_take_is_taken_later(tmp_path: Path, fault: Exception) -> None:
    engine = Followed(tmp_path / "mount", fault)

    async def test(master: Running, _: ControlClient) -> None:
        with following(engine, master):
            await until(lambda: engine.adopted == 1)

    with_master(tmp_path / "master", test)
