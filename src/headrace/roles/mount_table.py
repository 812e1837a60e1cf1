"""What is mounted where, as the kernel lists it: reading the list touches no mount, so a dead one hangs nobody."""

from __future__ import annotations

import os
from dataclasses import dataclass
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

    @property
    def is_ours(self) -> bool:
        """True for a mount that Headrace made, and for whatever binds a part of one."""
        return self.kind == KIND or (self.kind == _VIEW_KIND and self.source.endswith(_VIEW_SOURCE))


def mounts(table: Path = _MOUNTS) -> list[MountEntry]:
    """All mounts of this mount namespace, or of that of another process's `table`; later ones cover earlier ones."""
    with table.open(encoding="utf-8", errors="surrogateescape") as lines:
        return [_entry(line) for line in lines]


def mount_at(path: str) -> MountEntry | None:
    """What is mounted on top at `path`; `None` when nothing is."""
    found = [entry for entry in mounts() if entry.path == path]
    return found[-1] if found else None


def place_of(path: str | os.PathLike[str]) -> str:
    """`path` as the list has it: links above it followed, and `path` itself not touched."""
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - of a path that may hang
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118


def _entry(line: str) -> MountEntry:
    words = line.split()
    kind, source = words[words.index("-", 6) + 1 :][:2]
    return MountEntry(int(words[0]), words[2], _unescape(words[4]), kind, _unescape(source))


def _unescape(text: str) -> str:
    for code, character in _ESCAPES:
        text = text.replace(code, character)
    return text
