"""What a member is configured by: the view and the origins of the last outlook that it kept."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from headrace.control.messages import DatasetNote, Outlook
from headrace.control.outlooks import config_by, last_outlook, save_outlook, with_earlier
from headrace.settings.cluster import ClusterConfig
from headrace.settings.engine import EngineConfig
from headrace.settings.origins import ClusterOrigin, OriginMount

A, B, C = (("a", "s3://data/a"), ("b", "s3://data/b"), ("c", "s3://data/c"))


def config(folder: Path) -> EngineConfig:
    cluster = ClusterConfig(view={"epoch": 1}, token=SecretStr("0123456789abcdef"), node="n")
    origins = (OriginMount(path="a", origin=ClusterOrigin(name="s3://data/a")),)
    return EngineConfig(name="shop", origins=origins, state_directory=folder, cluster=cluster)


def test_the_next_process_reads_the_origins_and_goes_by_the_view_that_were_kept(tmp_path: Path) -> None:
    save_outlook(
        tmp_path, Outlook(cluster="shop", epoch=7, view={"epoch": 7}, dataset=DatasetNote(origins=(A, B)))
    )
    after = config_by(last_outlook(tmp_path), config(tmp_path))
    assert tuple((mount.path, mount.label) for mount in after.origins) == (A, B)
    assert after.cluster is not None
    assert after.cluster.view == {"epoch": 7}


def test_without_an_outlook_it_stays_as_it_is(tmp_path: Path) -> None:
    assert config_by(last_outlook(tmp_path), config(tmp_path)) == config(tmp_path)
    unknown = Outlook(cluster="shop", epoch=7, view={"epoch": 7})
    assert config_by(unknown, config(tmp_path)).origins == config(tmp_path).origins


def test_numbers_that_no_origin_has_any_more_keep_their_origin() -> None:
    assert with_earlier(DatasetNote(origins=(B,)), (A, B)).origins == (B, B)
    assert with_earlier(DatasetNote(origins=(A, B, C)), (A,)).origins == (A, B, C)
