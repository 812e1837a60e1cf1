"""Which clusters this machine has, and with whom each should end. Gone with the machine's power, as they are."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.netns.owners import start_time
from headrace.testing.kubernetes.layout import Layout

_FOLDER = Path("/run/headrace-kubernetes")


def enter(layout: Layout, lives_with: int | None) -> None:
    """Notes a cluster. `lives_with` is the process without which nobody needs it."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    owner = {"pid": lives_with, "start": start_time(lives_with)} if lives_with else None
    _path(layout).write_text(json.dumps({"folder": str(layout.folder), "owner": owner}))


def leave(layout: Layout) -> None:
    _path(layout).unlink(missing_ok=True)
    if _FOLDER.exists() and not any(_FOLDER.iterdir()):
        _FOLDER.rmdir()


def is_entered(layout: Layout) -> bool:
    """True for a folder that was noted as a cluster's, whatever has become of it since."""
    return _path(layout).exists()


def abandoned() -> list[Path]:
    """The folders of clusters whose owners are gone."""
    found = []
    for path in _FOLDER.glob("*.json"):
        try:
            known = json.loads(path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            continue
        owner = known["owner"]
        if owner and start_time(owner["pid"]) != owner["start"]:
            found.append(Path(known["folder"]))
    return found


def _path(layout: Layout) -> Path:
    return _FOLDER / f"{layout.identity}.json"
