"""Mounts as the kernel lists them."""

from __future__ import annotations

from pathlib import Path

from headrace.roles.mountpoint.mount_table import MountEntry, mounts, topmost

TABLE = r"""
40 1 0:41 / /mnt/two\040words ro,nosuid - fuse.headrace s3://b\134x ro,user_id=0
41 1 0:42 / /mnt/view ro,nosuid shared:7 - erofs /state/of\040it/headrace.erofs ro,directio
42 1 0:43 / /mnt/system ro - erofs /images/system.erofs ro
43 1 0:44 / /mnt/other ro - ext4 /images/headrace.erofs rw
44 1 0:45 / /mnt/nothing rw - tmpfs none rw
"""


def test_our_mounts_are_told_from_all_others(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TABLE.lstrip())
    found = mounts(table)
    assert [entry.path for entry in found if entry.is_ours] == ["/mnt/two words", "/mnt/view"]
    assert [entry.device for entry in found] == [f"0:{number}" for number in range(41, 46)]
    assert found[1].source == "/state/of it/headrace.erofs"


def _entry(number: int, parent: int) -> MountEntry:
    return MountEntry(number, "0:41", "/mnt", "erofs", parent=parent)


def test_what_was_put_beneath_is_not_on_top() -> None:
    assert topmost([]) is None
    assert topmost([_entry(50, 1)]) == _entry(50, 1)
    assert topmost([_entry(50, 1), _entry(60, 50)]) == _entry(60, 50)
    # The kernel lists mounts by age: the one that was put beneath is the younger.
    assert topmost([_entry(50, 60), _entry(60, 1)]) == _entry(50, 60)
    assert topmost([_entry(50, 1), _entry(70, 2)]) == _entry(70, 2)
