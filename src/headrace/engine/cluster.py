"""The native parts of a cluster as the roles see them: worker, snapshots, loads. Typed, and nothing more."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.engine import native
from headrace.engine.handles import Job
from headrace.engine.status import RefreshReport, Report, WorkerReport
from headrace.errors import CorruptDataError
from headrace.settings.cluster import LoadConfig, SnapshotConfig, WorkerConfig

_MAGIC = b"\x89HRSNP\r\n"
_HEAD_BYTES = 512
_FORMAT = 1


class NativeWorker:
    """A worker at work: its cache is open, its peers are served. Every method may block."""

    def __init__(self, config: WorkerConfig) -> None:
        config.state_directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._native = native.load().Worker(config.to_json())

    def address(self) -> str:
        """`HOST:PORT` where it listens, also when port 0 was asked for."""
        return str(self._native.address())

    def set_view(self, view: Mapping[str, Any]) -> None:
        """Goes by these members from now on."""
        self._native.set_view(json.dumps(view))

    def set_pinned(self, ids: Sequence[str]) -> None:
        """Keeps these files (hexadecimal ids) whatever else is read, and no others."""
        self._native.set_pinned(list(ids))

    def drain(self) -> Job:
        """Starts to hand all blocks to their next owners."""
        return Job(self._native.drain())

    def status(self) -> WorkerReport:
        """What it says of itself."""
        return WorkerReport.model_validate_json(self._native.status())

    def metrics(self) -> str:
        """The OpenMetrics text."""
        return str(self._native.metrics())

    def close(self) -> None:
        """Ends it in order; the cache stays."""
        self._native.close()


class SnapshotHead(Report):
    """What the header of a snapshot file says: docs/format/snapshot.md."""

    version: int
    files: int
    directories: int
    bytes: int


def take_snapshot(config: SnapshotConfig, directory: Path) -> tuple[Path, RefreshReport]:
    """Lists all origins into a new `snapshot-VERSION.hrs` in the folder; blocks until it is there."""
    answer = json.loads(native.load().take_snapshot(config.to_json(), str(directory)))
    return Path(answer["path"]), RefreshReport.model_validate(answer)


def file_ids(snapshot: Path, paths: Sequence[bytes]) -> list[str]:
    """The ids of all files at or below paths; blocks."""
    return list(native.load().snapshot_file_ids(str(snapshot), list(paths)))


def start_load(config: LoadConfig, paths: Sequence[bytes]) -> Any:
    """A load under way: `progress()`, `cancel()`, `set_view(json)`."""
    return native.load().ClusterLoad(config.to_json(), list(paths))


def read_snapshot_head(path: Path) -> SnapshotHead:
    """The header of a snapshot file. Raises `CorruptDataError` for what is none, or is cut off."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        size = file.seek(0, 2)
    if len(head) < _HEAD_BYTES or head[:8] != _MAGIC:
        raise CorruptDataError.of(f"{path} is no snapshot")
    form, _, length, version = struct.unpack_from("<IIQQ", head, 8)
    if form != _FORMAT or length != size:
        raise CorruptDataError.of(f"{path} is cut off, or of another format")
    files, directories, _, data_bytes = struct.unpack_from("<QQQQ", head, 48)
    return SnapshotHead(version=version, files=files, directories=directories, bytes=data_bytes)
