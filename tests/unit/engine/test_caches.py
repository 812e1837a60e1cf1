from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from headrace.engine import caches
from headrace.engine.caches import cache_levels, default_cache, fitted, prepare_folder
from headrace.errors import ConfigError, RefusedError
from headrace.settings.cache_words import parse_cache
from headrace.settings.engine import FolderConfig, LevelConfig, Medium


def levels_of(*words: str) -> tuple[LevelConfig, ...]:
    """The levels of these words, with water marks of 0.9 and 0.8 where they have none."""
    return cache_levels([parse_cache(word) for word in words], high=0.9, low=0.8)


def test_levels_stand_in_the_order_of_their_media(tmp_path: Path) -> None:
    words = [f"{tmp_path}/m:1Gi:MEM", f"{tmp_path}/s1,{tmp_path}/s2:2Gi:SSD", f"{tmp_path}/m2:3Gi:MEM"]
    memory, disk = levels_of(*words)
    assert (memory.medium, disk.medium) == (Medium.MEM, Medium.SSD)
    assert [(folder.path.name, folder.quota_bytes) for folder in memory.folders] == [
        ("m", 1 << 30),
        ("m2", 3 << 30),
    ]
    # One quota for two folders is shared evenly.
    assert [folder.quota_bytes for folder in disk.folders] == [1 << 30, 1 << 30]
    assert (disk.high, disk.low) == (0.9, 0.8)


def test_levels_may_have_water_marks_of_their_own(tmp_path: Path) -> None:
    words = [f"{tmp_path}/m:1Gi:MEM", f"{tmp_path}/s:2Gi:SSD:0.7-0.5"]
    memory, disk = levels_of(*words)
    assert (memory.high, memory.low, disk.high, disk.low) == (0.9, 0.8, 0.7, 0.5)


def test_folder_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="given twice"):
        levels_of(f"{tmp_path}:1Gi", f"{tmp_path}/../{tmp_path.name}/:1Gi", f"{tmp_path}:2Gi")


def test_share_is_one_of_the_folders_disk(tmp_path: Path) -> None:
    (level,) = levels_of(f"{tmp_path}/new/folder:50%")
    assert level.folders[0].quota_bytes == pytest.approx(shutil.disk_usage(tmp_path).total / 2, rel=0.001)


def test_default_counts_what_the_cache_holds_already_as_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: free)
    folder = tmp_path / "cache"
    before = default_cache(folder).quota.size_bytes
    assert before == free.f_bavail * free.f_frsize // 2
    folder.mkdir()
    (folder / "block").write_bytes(os.urandom(8 << 20))
    assert default_cache(folder).quota.size_bytes == before + (4 << 20)


def test_a_cache_leaves_half_of_run_to_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_RUN", tmp_path)
    size_bytes = shutil.disk_usage(tmp_path).total
    (tmp_path / "memory").mkdir()
    (level,) = fitted(levels_of(f"{tmp_path}/memory:{size_bytes}"))
    assert level.folders[0].quota_bytes <= size_bytes // 2 + 1


def test_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    prepare_folder(FolderConfig(path=folder, quota_bytes=1))
    assert folder.stat().st_mode & 0o777 == 0o700


def test_quota_larger_than_the_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="larger than its disk") as caught:
        prepare_folder(FolderConfig(path=tmp_path, quota_bytes=1 << 60))
    assert "1.00EiB" in str(caught.value)


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        prepare_folder(FolderConfig(path=tmp_path / "file", quota_bytes=1))
    with pytest.raises(ConfigError, match="cannot make"):
        prepare_folder(FolderConfig(path=tmp_path / "file" / "below", quota_bytes=1))


def test_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RefusedError, match="cannot write to cache folder"):
        prepare_folder(FolderConfig(path=tmp_path, quota_bytes=1))


def test_quotas_larger_than_their_disk_are_cut_to_what_fits_all_together(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    size = disk.f_blocks * disk.f_frsize
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    small = levels_of(f"{tmp_path}/a:1Mi:SSD")
    assert fitted(small) == small
    words = [f"{tmp_path}/a:{size}:SSD", f"{tmp_path}/b:{size}:SSD", f"{tmp_path}/c:1Mi:HDD"]
    levels = fitted(levels_of(*words))
    quotas = [folder.quota_bytes for level in levels for folder in level.folders]
    assert size * 0.9 < sum(quotas) <= size * 0.95
    assert quotas[0] == quotas[1] > quotas[2] > 0
    assert levels[0].high == 0.9
