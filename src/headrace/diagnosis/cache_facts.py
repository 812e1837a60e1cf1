"""The abilities of a cache folder's disk: its kind, its room, and how fast it takes a few megabytes."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_PIECE = bytes(1 << 20)
_MOST_PIECES = 64
_MOST_S = 2.0


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """One cache folder. `probed` is the folder that was written to: the nearest that is there already."""

    folder: Path
    probed: Path
    file_system: str
    size_bytes: int
    free_bytes: int
    write_bytes_per_s: float | None
    """`None` when it could not be tried: see `fault`."""
    fault: str = ""


def gather(folder: Path) -> CacheFacts:
    """The facts as they are now. The written files go at once, at most 64 MiB and for at most two seconds."""
    probed = next(each for each in (folder, *folder.parents) if each.is_dir())
    disk = os.statvfs(probed)
    free = disk.f_bavail * disk.f_frsize
    speed, fault = _speed(probed, free)
    return CacheFacts(folder, probed, _file_system(probed), disk.f_blocks * disk.f_frsize, free, speed, fault)


def _speed(folder: Path, free_bytes: int) -> tuple[float | None, str]:
    if free_bytes < 2 * _MOST_PIECES * len(_PIECE):
        return None, "too little room to try"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            began, written = time.monotonic(), 0
            while written < _MOST_PIECES and time.monotonic() - began < _MOST_S:
                file.write(_PIECE)
                file.flush()
                os.fdatasync(file.fileno())
                written += 1
            return written * len(_PIECE) / max(time.monotonic() - began, 1e-6), ""
    except OSError as error:
        return None, error.strerror or str(error)


def _file_system(folder: Path) -> str:
    """By the device: the mount table names folders, and the longest may be one that another mount covers."""
    wanted = folder.stat().st_dev
    place = f"{os.major(wanted)}:{os.minor(wanted)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split()
        if fields[2] == place:
            return fields[fields.index("-") + 1]
    return "unknown"
