"""The engine of a master: lists origins, and carries loads out. Begun when first needed, and again after a failure.

Every method but `origins` may block.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.control.loads import RunningLoad
from headrace.control.messages import LoadAction, LoadReport, Refreshed, SnapshotNote
from headrace.control.shelf import snapshot_files
from headrace.engine.cluster import NativeLister, read_snapshot_head
from headrace.engine.handles import Job
from headrace.engine.status import RefreshReport
from headrace.errors import BusyError
from headrace.settings.engine import EngineConfig, SnapshotPolicy
from headrace.settings.key_sources import KeySource


class ListingEngine:
    """One native lister, as the cluster wants it."""

    def __init__(self, config: EngineConfig, keys: Sequence[KeySource] = ()) -> None:
        self._config, self._keys = config, keys
        self._lister: NativeLister | None = None
        self._view: str | None = None
        self._origins: tuple[tuple[str, str], ...] = ()
        self._lock = threading.Lock()

    def take(self) -> tuple[Path, Refreshed]:
        """A snapshot: the first time what the start gives (a new one, or the last one), afterwards a new one.

        Where the start was to give a new one and the origins did not answer, it raises why, as any later time does.
        """
        with self._lock:
            if self._lister is not None:
                return _refreshed(self._lister.refresh())
            before = next(snapshot_files(self._config.state_directory), None)
            lister = NativeLister(self._config, self._keys)
            if self._view is not None:
                lister.set_view(self._view)
            self._origins = tuple(lister.origins())
            self._lister = lister
            path, current = _refreshed(lister.current())
            if self._config.snapshot is SnapshotPolicy.REFRESH and before and path.name == before.name:
                # It may be of other mounts, and nobody would list these again.
                return _refreshed(lister.refresh())
            return path, current

    def describe(self, path: Path) -> SnapshotNote:
        """The note in the file's header."""
        head = read_snapshot_head(path)
        return SnapshotNote(
            version=head.version,
            files=head.files,
            directories=head.directories,
            data_bytes=head.bytes,
            taken_at_s=path.stat().st_mtime,
        )

    def origins(self) -> tuple[tuple[str, str], ...]:
        """Place in the tree and canonical name of each origin; empty until it has begun."""
        return self._origins

    def set_view(self, view_json: str) -> None:
        """Makes loads go by these workers from now on."""
        self._view = view_json
        if (lister := self._lister) is not None:
            lister.set_view(view_json)

    def file_ids(self, paths: Sequence[bytes]) -> bytes:
        """The ids of all files at or below paths."""
        return self._begun().file_ids(paths)

    def start(self, report: LoadReport) -> RunningLoad:
        """Starts a load; an eviction is over when this returns."""
        order, lister = report.order, self._begun()
        if order.action is LoadAction.EVICT:
            return Evicted(lister.evict(order.raw_paths))
        job = lister.load(
            order.raw_paths,
            replicas=order.replicas,
            bytes_per_second=order.rate_bytes_per_s,
            verify=order.verify,
        )
        return LoadJob(job)

    def metrics(self) -> str:
        """The OpenMetrics text; empty until it has begun."""
        return self._lister.metrics() if self._lister is not None else ""

    def close(self) -> None:
        """Ends it."""
        if self._lister is not None:
            self._lister.close()

    def _begun(self) -> NativeLister:
        if self._lister is None:
            raise BusyError.of("there is no snapshot yet", hint="`headrace status --cluster URL` says why")
        return self._lister


class LoadJob:
    """A load of the engine."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def progress(self) -> Mapping[str, Any]:
        """How far it is."""
        report = self._job.progress()
        return {**report.model_dump(), "cached_by_worker": report.cached_by_worker}

    def cancel(self) -> None:
        """Stops it; what is in stays in."""
        self._job.cancel()


class Evicted:
    """An eviction, which is over at once."""

    def __init__(self, freed_bytes: int) -> None:
        self._freed_bytes = freed_bytes

    def progress(self) -> Mapping[str, Any]:
        """All of it."""
        return {"state": "done", "done_bytes": self._freed_bytes, "total_bytes": self._freed_bytes}

    def cancel(self) -> None:
        """Too late."""


def _refreshed(taken: tuple[Path, RefreshReport]) -> tuple[Path, Refreshed]:
    path, report = taken
    return path, Refreshed.model_validate(report.model_dump())
