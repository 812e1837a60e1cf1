"""The folder of a bed, named after its process, so that what a killed one left behind can be found and removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from headrace.netns.owners import is_stale, owned_name

UNMOUNT_TIMEOUT_S = 60.0


def make_bed_folder(number: int, base: Path | None = None) -> Path:
    """A new folder below `base` (the folder for temporary files by default), after old ones were cleared away."""
    base = base or Path(tempfile.gettempdir())
    base.mkdir(parents=True, exist_ok=True)
    remove_stale_folders(base)
    folder = base / owned_name(number)
    folder.mkdir(mode=0o755)
    return folder


def remove_stale_folders(base: Path) -> None:
    """Removes the folders of processes that are gone, and unmounts what is mounted in them."""
    for folder in base.glob("headrace-*"):
        if is_stale(folder.name):
            remove_bed_folder(folder)


def remove_bed_folder(folder: Path) -> None:
    """Unmounts what is mounted below, then removes it."""
    for mountpoint in mountpoints_below(folder):
        unmount(mountpoint)
    if not mountpoints_below(folder):
        shutil.rmtree(folder, ignore_errors=True)


def mountpoints_below(folder: Path) -> list[Path]:
    """By the kernel's table, the innermost first: asking the mountpoints themselves could hang."""
    table = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    places = [Path(line.split(" ")[1].replace("\\040", " ")) for line in table.splitlines()]
    return [place for place in reversed(places) if place.is_relative_to(folder)]


def unmount(mountpoint: Path) -> None:
    """Takes a mount out of the tree at once; who still has files open there keeps them."""
    lazy = ["umount", "-l"] if os.geteuid() == 0 else [shutil.which("fusermount3") or "fusermount", "-uz"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([*lazy, str(mountpoint)], capture_output=True, check=False, timeout=UNMOUNT_TIMEOUT_S)


def mount_small_disk(folder: Path, size_bytes: int) -> None:
    """Makes a folder a disk of its own that can be full: a tmpfs. Needs root; goes with the bed."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "tmpfs", str(folder)]
    subprocess.run(words, check=True, capture_output=True)
