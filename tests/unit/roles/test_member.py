"""What a mount tells its master of its traffic, and how it follows it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import cluster_double
import pytest
from masters import ORIGINS, TOKEN, Running, until, with_master

from headrace.control.client import ControlClient
from headrace.control.messages import Traffic
from headrace.engine import native
from headrace.engine.status import ReadReport
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


def test_a_mount_whose_folder_takes_no_snapshot_for_a_while_follows_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = cluster_double.make_module()
    monkeypatch.setattr(module.Lister, "origins", lambda _: [(each.path, each.label) for each in ORIGINS])
    monkeypatch.setattr(native, "load", lambda: module)
    folder = tmp_path / "mount"
    folder.mkdir()
    adopted: list[int] = []

    def adopt() -> SimpleNamespace:
        adopted.append(len(adopted) + 1)
        return SimpleNamespace(version=adopted[-1], files=3)

    async def test(master: Running, client: ControlClient) -> None:
        member = MemberSpec(master=master.url, mount_id="m")
        with Follower(engine, member, config, tmp_path / "mnt", lambda: None):
            await until(lambda: len(adopted) == 1)
            folder.rename(tmp_path / "aside")
            folder.touch()
            await client.refresh()
            await until(lambda: "snapshot 2" in caplog.text)
            assert len(adopted) == 1
            folder.unlink()
            await until(lambda: len(adopted) == 2)

    engine = SimpleNamespace(
        state_directory=folder,
        set_view=lambda _: None,
        adopt_snapshot=adopt,
        status=lambda: SimpleNamespace(reads=ReadReport()),
    )
    nobody = {"epoch": 0, "replicas": 1, "members": []}
    config = EngineConfig(
        name="shop",
        origins=ORIGINS,
        state_directory=folder,
        cluster=ClusterConfig(view=nobody, token=TOKEN, node="n"),
    )
    with_master(tmp_path / "master", test)
