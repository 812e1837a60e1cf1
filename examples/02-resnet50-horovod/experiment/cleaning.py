"""Folders of one experiment, and the end of what a killed one left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from experiment.commands import environment_of, program
from experiment.storage import unmount
from headrace.netns.namespaces import can_make_namespaces, remove_stale_namespaces
from headrace.netns.owners import start_time

# With the start of the process: numbers of processes are used again.
WORK_NAME = re.compile(r"headrace-resnet-(?P<pid>\d+)-(?P<start>\d+)")
STATE = "state"
DOWN_TIMEOUT_S = 120


def own_name() -> str:
    """What this process calls its folders."""
    return f"headrace-resnet-{os.getpid()}-{start_time(os.getpid())}"


def is_leftover(name: str) -> bool:
    """Whether a folder's name is one of ours and its maker is gone."""
    match = WORK_NAME.fullmatch(name)
    return match is not None and start_time(int(match["pid"])) != int(match["start"])


@contextlib.contextmanager
def work_folders(cache: Path) -> Iterator[tuple[Path, Path]]:
    """A short path for mounts, sockets and logs, and a folder on the checkout's disk for Headrace's caches."""
    work, caches = Path(tempfile.gettempdir()) / own_name(), cache / own_name()
    for folder in (work, caches):
        folder.mkdir(parents=True, mode=0o700)
    try:
        yield work, caches
    finally:
        remove(work)
        remove(caches)


def remove_leftovers(cache: Path) -> list[Path]:
    """Ends and removes what experiments whose process is gone left behind; the folders that were removed."""
    if can_make_namespaces():
        remove_stale_namespaces()
    found = [
        folder
        for parent in (Path(tempfile.gettempdir()), cache)
        for folder in parent.glob("headrace-resnet-*")
        if is_leftover(folder.name)
    ]
    for folder in found:
        remove(folder)
    return found


def remove(folder: Path) -> None:
    """Takes the backend down that lives in the folder, if one does, and removes the folder."""
    state = folder / STATE
    if state.exists():
        # Ends the jobs, too.
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [program("headrace"), "down"],
                env=environment_of(state),
                capture_output=True,
                timeout=DOWN_TIMEOUT_S,
                check=False,
            )
    for mountpoint in mounts_below(folder):
        unmount(mountpoint)
    # Deleting would reach into what is still mounted.
    if not mounts_below(folder):
        shutil.rmtree(folder, ignore_errors=True)


def mounts_below(folder: Path) -> list[Path]:
    """The innermost first."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    places = [Path(line.split()[1]) for line in lines]
    return [place for place in reversed(places) if place.is_relative_to(folder)]
