"""What a dataset left on a node is taken away, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import RefusedError
from headrace.roles.node.sweeping import sweep


def dataset(node: Path, cache: Path, name: str) -> None:
    (node / "mounts" / name).mkdir(parents=True)
    (node / "state" / name / "worker-0").mkdir(parents=True)
    (cache / name / "data").mkdir(parents=True)
    (cache / name / "data" / "block").write_bytes(b"1")
    (cache / name / "lock").touch()


def test_one_dataset_goes_and_the_other_of_its_namespace_stays(tmp_path: Path) -> None:
    node, cache = tmp_path / "node", tmp_path / "cache"
    for name in ("team/one", "team/two", "lone/one"):
        dataset(node, cache, name)
    sweep("team/one", node, [cache])
    sweep("lone/one", node, [cache])
    left = {
        str(each.relative_to(tmp_path))
        for each in tmp_path.glob("*/**/*")
        if each.name in ("one", "two", "lone")
    }
    assert left == {"node/mounts/team/two", "node/state/team/two", "cache/team/two"}
    sweep("team/one", node, [cache])


def test_a_stranger_s_file_in_a_cache_is_refused_and_stays(tmp_path: Path) -> None:
    node, cache = tmp_path / "node", tmp_path / "cache"
    dataset(node, cache, "team/one")
    (cache / "team/one" / "thesis.tex").write_text("years of work")
    with pytest.raises(RefusedError, match=r"thesis\.tex"):
        sweep("team/one", node, [cache])
    assert (cache / "team/one" / "thesis.tex").exists()
    assert (cache / "team/one" / "data" / "block").exists()


def test_a_folder_without_the_mark_of_a_cache_stays(tmp_path: Path) -> None:
    node, cache = tmp_path / "node", tmp_path / "cache"
    (cache / "team/one/data").mkdir(parents=True)
    (cache / "team/one/data/thesis.tex").write_text("years of work")
    with pytest.raises(RefusedError, match="mark"):
        sweep("team/one", node, [cache])
    assert (cache / "team/one/data/thesis.tex").exists()


@pytest.mark.parametrize("place", ["mounts", "state", "cache"])
def test_a_link_in_the_place_of_a_namespace_is_not_followed(tmp_path: Path, place: str) -> None:
    node, precious = tmp_path / "node", tmp_path / "precious"
    (precious / "one" / "data").mkdir(parents=True)
    root = node / place
    root.mkdir(parents=True)
    (root / "team").symlink_to(precious)
    with pytest.raises(RefusedError, match="link"):
        sweep("team/one", node, [node / "cache"])
    assert (precious / "one" / "data").is_dir()
    assert (root / "team").is_symlink()


def test_a_cache_folder_that_is_a_link_itself_is_the_administrator_s(tmp_path: Path) -> None:
    node, disk = tmp_path / "node", tmp_path / "disk"
    dataset(node, disk, "team/one")
    (tmp_path / "cache").symlink_to(disk)
    sweep("team/one", node, [tmp_path / "cache"])
    assert not (disk / "team").exists()
    assert (tmp_path / "cache").is_symlink()


def test_a_file_in_the_place_of_a_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "team").write_text("notes")
    with pytest.raises(RefusedError, match="no folder"):
        sweep("team/one", tmp_path / "node", [tmp_path / "cache"])
    assert (tmp_path / "cache" / "team").read_text() == "notes"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    node, cache, precious = tmp_path / "node", tmp_path / "cache", tmp_path / "precious"
    (precious / "data").mkdir(parents=True)
    (cache / "team").mkdir(parents=True)
    (cache / "team" / "one").symlink_to(precious)
    with pytest.raises(RefusedError, match="link"):
        sweep("team/one", node, [cache])
    assert (precious / "data").is_dir()
