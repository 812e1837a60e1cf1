"""What a member is configured by: the view and the origins of the last outlook that it kept."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from headrace.control.messages import DatasetNote, Outlook
from headrace.control.outlooks import (
    carried_on,
    config_by,
    epoch_of,
    last_outlook,
    save_outlook,
    with_earlier,
)
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


def test_a_member_keeps_its_view_until_it_is_told_one_that_was_published() -> None:
    known = Outlook(cluster="shop", epoch=7, view={"epoch": 7})
    beginner = Outlook(cluster="shop", epoch=0, view={"epoch": 0, "members": []}, pins_version=3)
    assert carried_on(beginner, known) == beginner.model_copy(update={"epoch": 7, "view": {"epoch": 7}})
    silent = Outlook(cluster="shop", epoch=9)
    assert carried_on(silent, known).view == {"epoch": 7} and epoch_of(carried_on(silent, known)) == 7
    later = Outlook(cluster="shop", epoch=9, view={"epoch": 9})
    assert carried_on(later, known) == later
    # Of another cluster, or without one that was published, there is nothing to keep.
    for nothing in (None, known.model_copy(update={"cluster": "other"}), beginner):
        assert carried_on(beginner, nothing) == beginner
    assert epoch_of(beginner) == epoch_of(None) == 0
