"""The mounts of this machine, as the kernel lists them: reading the list touches no mount, so a dead one hangs
nobody."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

KIND = "fuse.headrace"
"""The kind of our own mounts, but for views."""
_VIEW_KIND, _VIEW_SOURCE = "erofs", "/headrace.erofs"
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


@dataclass(frozen=True)
class MountEntry:
    """One mount. `id` is a number of this process's mount namespace, `device` (`major:minor`) the same in all."""

    id: int
    device: str
    path: str
    kind: str
    source: str = ""
    parent: int = field(default=0, compare=False)
    """The mount that it is on: another one, once something was put beneath it."""

    @property
    def is_ours(self) -> bool:
        """True for a mount that Headrace made, and for whatever binds a part of one."""
        return self.kind == KIND or self.is_view

    @property
    def is_view(self) -> bool:
        """True for a view of ours, whose earlier lists are other mounts of the same source."""
        return self.kind == _VIEW_KIND and self.source.endswith(_VIEW_SOURCE)


def mounts(table: Path = _MOUNTS) -> list[MountEntry]:
    """All mounts of this mount namespace, or of that of another process's `table`."""
    with table.open(encoding="utf-8", errors="surrogateescape") as lines:
        return [_entry(line) for line in lines]


def mount_at(path: str) -> MountEntry | None:
    """The topmost mount at `path`; `None` when there is none."""
    return topmost([entry for entry in mounts() if entry.path == path])


def topmost(at_one_path: Sequence[MountEntry]) -> MountEntry | None:
    """The one that no other is on; of several (below mounts that are covered themselves) the latest."""
    covered = {entry.parent for entry in at_one_path}
    return next((entry for entry in reversed(at_one_path) if entry.id not in covered), None)


def place_of(path: str | os.PathLike[str]) -> str:
    """`path` as the list has it: links above it followed, and `path` itself not touched."""
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - of a path that may hang
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118


def _entry(line: str) -> MountEntry:
    words = line.split()
    kind, source = words[words.index("-", 6) + 1 :][:2]
    return MountEntry(
        int(words[0]), words[2], _unescape(words[4]), kind, _unescape(source), parent=int(words[1])
    )


def _unescape(text: str) -> str:
    for code, character in _ESCAPES:
        text = text.replace(code, character)
    return text
