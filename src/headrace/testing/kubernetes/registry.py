"""The clusters of this machine, and the process that each should end with. Gone with the machine's power, as they
are."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path

from headrace.netns.owners import start_time
from headrace.testing.kubernetes.layout import Layout

_FOLDER = Path("/run/headrace-kubernetes")


def enter(layout: Layout, lives_with: int | None) -> None:
    """Notes a cluster. `lives_with` is the process without which nobody needs it."""
    owner = {"pid": lives_with, "start": start_time(lives_with)} if lives_with else None
    entry = json.dumps({"folder": str(layout.folder), "owner": owner})
    while True:
        # The last cluster that leaves takes the folder with it, also between any two of these steps.
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            _FOLDER.mkdir(parents=True, exist_ok=True)
            _path(layout).write_text(entry)
            return


def leave(layout: Layout) -> None:
    _path(layout).unlink(missing_ok=True)
    # Others are in it, or somebody else was the last one.
    with contextlib.suppress(OSError):
        _FOLDER.rmdir()


def is_entered(layout: Layout) -> bool:
    """True for a folder that was noted as a cluster's, whatever has become of it since."""
    return _path(layout).exists()


def abandoned() -> list[Path]:
    """The folders of clusters whose owners are gone."""
    found = []
    for path in _entries():
        try:
            known = json.loads(path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            continue
        owner = known["owner"]
        if owner and start_time(owner["pid"]) != owner["start"]:
            found.append(Path(known["folder"]))
    return found


@contextlib.contextmanager
def sole_remover(layout: Layout) -> Iterator[bool]:
    """Says whether an abandoned cluster is still to be taken away; whoever comes meanwhile waits for it."""
    try:
        entry = _path(layout).open("rb")
    except FileNotFoundError:
        yield False
        return
    with entry:
        fcntl.flock(entry, fcntl.LOCK_EX)
        yield layout.folder in abandoned()


def _entries() -> list[Path]:
    try:
        return list(_FOLDER.iterdir())
    except FileNotFoundError:
        return []


def _path(layout: Layout) -> Path:
    return _FOLDER / f"{layout.identity}.json"
