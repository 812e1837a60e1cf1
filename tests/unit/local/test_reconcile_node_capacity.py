"""What there is room for: the disks of a dataset's cache folders, shared by all nodes of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from planned import SEED, objects

from headrace.local.nodes.node_capacity import rooms_of


def runtime(*paths: Path, medium: str = "SSD") -> object:
    level = f"{{mediumtype: {medium}, path: '{','.join(map(str, paths))}', quota: 2G"
    return objects(SEED.replace("{mediumtype: SSD, path: /var/lib/docker/jindo, quota: 180G", level))[1]


def free_bytes(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def test_folders_of_one_disk_say_the_same_disk_before_they_are_made(tmp_path: Path) -> None:
    rooms = rooms_of(runtime(tmp_path / "a" / "b", tmp_path / "c"), "default/imagenet", None)
    assert set(rooms) == {f"{tmp_path}/a/b/default/imagenet", f"{tmp_path}/c/default/imagenet"}
    assert {room.id for room in rooms.values()} == {str(tmp_path.stat().st_dev)}
    assert all(abs(room.free_bytes - free_bytes(tmp_path)) < 1 << 30 for room in rooms.values())


def test_what_the_workers_hold_already_is_room_of_theirs(tmp_path: Path) -> None:
    held = [
        {"medium": "SSD", "quota_bytes": 1, "used_bytes": 1 << 45},
        {"medium": "MEM", "quota_bytes": 1, "used_bytes": 1 << 50},
    ]
    status = {"workers": [{"levels": held}, {"levels": held}]}
    (room,) = rooms_of(runtime(tmp_path), "default/imagenet", status).values()
    assert abs(room.free_bytes - free_bytes(tmp_path) - (1 << 46)) < 1 << 30


def test_without_levels_the_default_folder_is_looked_at() -> None:
    text = SEED.partition("  tieredstore:")[0]
    (folder,) = rooms_of(objects(text)[1], "default/imagenet", None)
    assert folder == "/run/headrace/memory/default/imagenet"
    assert rooms_of(None, "default/imagenet", None) == {}
