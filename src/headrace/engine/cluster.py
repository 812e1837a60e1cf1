"""The native parts of a cluster as the roles see them: worker, and the master's lister. Typed, and nothing more."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.engine import native
from headrace.engine.handles import Job
from headrace.engine.key_renewal import renewed_while_opening
from headrace.engine.status import RefreshReport, Report, WorkerReport
from headrace.errors import CorruptDataError
from headrace.settings.engine import EngineConfig
from headrace.settings.key_sources import KeySource
from headrace.trusted_folders import make_folder

_MAGIC = b"\x89HRSNP\r\n"
_HEAD_BYTES = 512
# 2 has permissions, 3 stamped versions as well; the header says the same in all.
_FORMATS = (1, 2, 3)


class NativeWorker:
    """A worker at work: its cache is open, its peers are served. Every method may block."""

    def __init__(self, config: EngineConfig, keys: Sequence[KeySource] = ()) -> None:
        make_folder(config.state_directory)
        with renewed_while_opening(keys, config) as self._renewal:
            self._native = native.load().Worker.open(config.to_json())

    def address(self) -> str:
        """`HOST:PORT` where it listens, also when port 0 was asked for."""
        return str(self._native.address())

    def lease_socket(self) -> str:
        """The socket at which processes of this machine borrow cached files."""
        return str(self._native.lease_socket())

    def set_view(self, view: Mapping[str, Any]) -> None:
        """Goes by these members from now on."""
        self._native.set_view(json.dumps(view))

    def set_pinned(self, ids: bytes) -> None:
        """Keeps these files (ids of 16 bytes, one after the other) whatever else is read, and no others."""
        self._native.set_pinned(ids)

    def drain(self) -> Job:
        """Starts to hand all blocks to their next owners; the view must say already that it drains."""
        return Job(self._native.drain())

    def status(self) -> WorkerReport:
        """The worker's report on itself."""
        return WorkerReport.model_validate_json(self._native.status())

    def metrics(self) -> str:
        """The OpenMetrics text."""
        return str(self._native.metrics())

    def close(self) -> None:
        """Ends it in order; the cache stays."""
        try:
            self._native.close()
        finally:
            self._renewal.close()


class NativeLister:
    """The engine of a master: lists origins into snapshots, and has loads carried out. Every method may block."""

    def __init__(self, config: EngineConfig, keys: Sequence[KeySource] = ()) -> None:
        make_folder(config.state_directory)
        with renewed_while_opening(keys, config) as self._renewal:
            self._native = native.load().Lister.open(config.to_json())

    def current(self) -> tuple[Path, RefreshReport]:
        """The snapshot in use."""
        return _described(self._native.current())

    def refresh(self) -> tuple[Path, RefreshReport]:
        """Lists the origins again."""
        return _described(self._native.refresh())

    def origins(self) -> list[tuple[str, str]]:
        """Place in the tree and canonical name of each origin."""
        return [(str(path), str(name)) for path, name in self._native.origins()]

    def set_view(self, view_json: str) -> None:
        """Makes loads go by these workers from now on."""
        self._native.set_view(view_json)

    def load(
        self, paths: Sequence[bytes], *, replicas: int | None, bytes_per_second: int | None, verify: bool
    ) -> Job:
        """Starts to have files held by their owners; with `verify`, compared with their checksums, too."""
        return Job(
            self._native.load(
                list(paths), replicas=replicas, bytes_per_second=bytes_per_second, verify=verify
            )
        )

    def evict(self, paths: Sequence[bytes]) -> int:
        """Orders every worker to drop files; the bytes given back."""
        return int(self._native.evict(list(paths)))

    def file_ids(self, paths: Sequence[bytes]) -> bytes:
        """The ids of all files at or below paths, as workers know them: 16 bytes each, one after the other."""
        return bytes(self._native.file_ids(list(paths)))

    def metrics(self) -> str:
        """The OpenMetrics text."""
        return str(self._native.metrics())

    def close(self) -> None:
        """Ends it."""
        try:
            self._native.close()
        finally:
            self._renewal.close()


class SnapshotHead(Report):
    """The header of a snapshot file: docs/format/snapshot.md."""

    version: int
    files: int
    directories: int
    bytes: int


def read_snapshot_head(path: Path) -> SnapshotHead:
    """The header of a snapshot file. Raises `CorruptDataError` for what is none, or is cut off."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        size = file.seek(0, 2)
    if len(head) < _HEAD_BYTES or head[:8] != _MAGIC:
        raise CorruptDataError.of(f"{path} is no snapshot")
    form, _, length, version = struct.unpack_from("<IIQQ", head, 8)
    if form not in _FORMATS or length != size:
        raise CorruptDataError.of(f"{path} is cut off, or of another format")
    files, directories, _, data_bytes = struct.unpack_from("<QQQQ", head, 48)
    return SnapshotHead(version=version, files=files, directories=directories, bytes=data_bytes)


def continue_snapshot(previous: Path, path: Path) -> None:
    """Gives the snapshot at `path` the inodes that it would have as the successor of the one at `previous`.

    A client of that one, such as a kernel, may see this one then, whoever took it.
    """
    native.load().continue_snapshot(previous, path)


def _described(answer: tuple[int, object, str]) -> tuple[Path, RefreshReport]:
    _, path, text = answer
    report = json.loads(text)
    difference = report.pop("difference", None) or {}
    return Path(str(path)), RefreshReport.model_validate({**difference, **report})
