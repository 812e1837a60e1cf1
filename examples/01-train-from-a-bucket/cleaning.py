"""Folders of one run of the demo, and the end of what a killed run left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ways import unmount

WORK_NAME = re.compile(r"headrace-demo-(?P<pid>\d+)-\w+")
CACHE_NAME = re.compile(r"run-(?P<pid>\d+)")


@contextlib.contextmanager
def work_folder(cache: Path) -> Iterator[tuple[Path, Path]]:
    """A short path for mounts, sockets and logs, and a folder on the checkout's disk for Headrace's caches."""
    caches = cache / f"run-{os.getpid()}"
    caches.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"headrace-demo-{os.getpid()}-"))
    try:
        yield work, caches
    finally:
        _remove(work)
        _remove(caches)


def remove_leftovers(cache: Path) -> None:
    """Unmounts and removes the folders of runs whose process is gone."""
    for parent, name in ((Path(tempfile.gettempdir()), WORK_NAME), (cache, CACHE_NAME)):
        for folder in parent.glob("*"):
            match = name.fullmatch(folder.name)
            if match and not Path("/proc", match["pid"]).exists():
                _remove(folder)


def _remove(folder: Path) -> None:
    for mountpoint in _mounts_below(folder):
        unmount(mountpoint)
    if _mounts_below(folder):
        # Deleting would reach into what is mounted.
        return
    shutil.rmtree(folder, ignore_errors=True)


def _mounts_below(folder: Path) -> list[Path]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    places = [Path(line.split()[1]) for line in lines]
    return [place for place in reversed(places) if place.is_relative_to(folder)]
