"""Keeps the last outlook of a member, for a start without the master, and says how an engine is configured by one.

Knows no HTTP, so that a start is quick.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pydantic import ValidationError

from headrace.control.messages import DatasetNote, Outlook
from headrace.settings.engine import EngineConfig
from headrace.settings.origins import ClusterOrigin, OriginMount

_OUTLOOK = "outlook.json"


def save_outlook(folder: Path, outlook: Outlook) -> None:
    """Keeps an outlook with its view for a start without the master."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f".{_OUTLOOK}.draft"
    with draft.open("w", encoding="utf-8") as file:
        file.write(outlook.model_dump_json())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / _OUTLOOK)


def last_outlook(folder: Path) -> Outlook | None:
    """The outlook that was kept; `None` when there is none that is whole."""
    with contextlib.suppress(OSError, ValidationError):
        outlook = Outlook.model_validate_json((folder / _OUTLOOK).read_bytes())
        return outlook if outlook.view is not None else None
    return None


def config_by(outlook: Outlook | None, config: EngineConfig) -> EngineConfig:
    """The configuration of a member that goes by this outlook: its view, and the origins of its snapshot."""
    if outlook is None or config.cluster is None:
        return config
    view = outlook.view or config.cluster.view
    return config.model_copy(
        update={
            "cluster": config.cluster.model_copy(update={"view": view}),
            "origins": origins_of(outlook.dataset) or config.origins,
        }
    )


def origins_of(dataset: DatasetNote) -> tuple[OriginMount, ...]:
    """The origins of a dataset, as a member reads them: through the workers."""
    return tuple(OriginMount(path=path, origin=ClusterOrigin(name=name)) for path, name in dataset.origins)
