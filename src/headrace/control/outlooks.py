"""Keeps the last outlook of a member, for a start without the master, and says how an engine is configured by one.

Knows no HTTP, so that a start is quick.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from headrace.control.messages import DatasetNote, Outlook
from headrace.settings.engine import EngineConfig
from headrace.settings.origins import ClusterOrigin, OriginMount
from headrace.trusted_folders import make_folder

_OUTLOOK = "outlook.json"


def save_outlook(folder: Path, outlook: Outlook) -> None:
    """Keeps an outlook with its view for a start without the master."""
    make_folder(folder)
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


def carried_on(told: Outlook, known: Outlook | None) -> Outlook:
    """The outlook of a member that knew one and is told another one.

    It keeps its view until it is told one that was published: a master that has just begun has none, and knows nobody.
    """
    if known is None or known.published_view is None or told.cluster != known.cluster:
        return told
    if told.published_view is not None:
        return told
    return told.model_copy(update={"view": known.view, "epoch": known.epoch})


def epoch_of(known: Outlook | None) -> int:
    """That of the view which a member goes by; 0 for none."""
    return known.epoch if known is not None and known.published_view is not None else 0


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


def with_earlier(dataset: DatasetNote, before: Sequence[tuple[str, str]]) -> DatasetNote:
    """The dataset, and behind its origins those that a mount had there before.

    Snapshots know origins by their number, and files may be open of an earlier snapshot that had more of them.
    """
    origins = dataset.origins
    return dataset.model_copy(update={"origins": (*origins, *before[len(origins) :])})
