"""Doubles of the native parts of a cluster: a lister whose snapshots have a true header, a worker that remembers.

They keep the promises of `headrace/_native.pyi` that the roles rely on. `role_process` runs a role around them in a
process of its own.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from pathlib import Path
from typing import Any

import native_double

from headrace.errors import DeadlineError, OriginUnreachableError

QUOTA_BYTES = 1 << 30


def make_module() -> Any:
    """The module of `native_double` with a `Worker` and a `Lister`."""

    class Worker(DoubleWorker):
        opened: list[DoubleWorker] = []

    class Lister(DoubleLister):
        opened: list[DoubleLister] = []

    # Its snapshots have files of no numbers that another could go on with.
    return native_double.make_module(
        Worker=Worker, Lister=Lister, continue_snapshot=lambda _before, _path: None
    )


class DoubleWorker:
    """Its cache holds as much as a file `cached` in its state folder says. While there is a file `silent`, its disk
    makes a drain wait; with a file `hanging`, it is known to hang.
    """

    opened: list[DoubleWorker]

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.views: list[dict[str, Any]] = [config["cluster"]["view"]]
        self.pinned: list[bytes] = []
        self.drains: list[native_double.DoubleJob] = []
        self.drain_report = {"state": "done", "done_bytes": 7, "total_bytes": 7}
        self.closed = False
        self.state = Path(config["state_directory"])
        self.opened.append(self)

    @classmethod
    def open(cls, config_json: str) -> DoubleWorker:
        return cls(json.loads(config_json))

    def address(self) -> str:
        host, _, port = self.config["cluster"]["worker"]["listen"].rpartition(":")
        return f"{host}:{int(port) or 45678}"

    def lease_socket(self) -> str:
        return str(self.state / "lease.sock")

    def set_view(self, view_json: str) -> None:
        self.views.append(json.loads(view_json))

    def set_pinned(self, files: bytes) -> None:
        self.pinned.append(files)

    def drain(self) -> native_double.DoubleJob:
        assert any(member["state"] == "draining" for member in self.views[-1]["members"])
        while (self.state / "silent").exists():
            (self.state / "waiting").touch()
            time.sleep(0.01)
        self.drains.append(native_double.DoubleJob(dict(self.drain_report)))
        return self.drains[-1]

    def status(self) -> str:
        cached = self.state / "cached"
        used = int(cached.read_text()) if cached.exists() else 0
        return json.dumps(
            {
                "levels": [{"medium": "SSD", "quota_bytes": QUOTA_BYTES, "used_bytes": used, "blocks": 1}],
                "capacity_bytes": QUOTA_BYTES,
                "cached_bytes": used,
                "epoch": self.views[-1]["epoch"],
                "hit_bytes": 3,
                "peer_bytes": 2,
                "origin_bytes": 1,
                "hanging_folders": ["/cache"] if (self.state / "hanging").exists() else [],
                "a field of a newer engine": 1,
            }
        )

    def metrics(self) -> str:
        return "# TYPE headrace_fills counter\nheadrace_fills_total 0\n# EOF\n"

    def close(self) -> None:
        self.closed = True
        if (self.state / "hanging").exists():
            raise DeadlineError.of(
                "the disk of cache folder /cache does not answer: not closed", hint="it is checked"
            )


class DoubleLister:
    """Each refresh writes a snapshot; a file `unreachable` beside the state folder makes it fail. A start goes on then
    with the last snapshot, if there is one.
    """

    opened: list[DoubleLister]

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.state = Path(config["state_directory"])
        self.views: list[dict[str, Any]] = []
        self.loads: list[tuple[list[bytes], dict[str, Any]]] = []
        self.evicted: list[list[bytes]] = []
        self.jobs: list[StepJob] = []
        self.closed = False
        self.opened.append(self)
        try:
            self.refresh()
        except OriginUnreachableError:
            if not _versions(self.state):
                raise

    @classmethod
    def open(cls, config_json: str) -> DoubleLister:
        return cls(json.loads(config_json))

    def current(self) -> tuple[int, str, str]:
        version = max(_versions(self.state))
        report = {"version": version, "files": 3, "bytes": 1000, "difference": None}
        report["notices"] = self.notices()
        return version, str(self.state / f"snapshot-{version}.hrs"), json.dumps(report)

    def notices(self) -> list[str]:
        is_unordered = (self.state.parent / "unordered").exists()
        return ["canonical:train: listed with one request at a time"] if is_unordered else []

    def refresh(self) -> tuple[int, str, str]:
        if (self.state.parent / "unreachable").exists():
            raise OriginUnreachableError.of("the bucket does not answer")
        version = max(_versions(self.state), default=0) + 1
        path = self.state / f"snapshot-{version}.hrs"
        path.write_bytes(snapshot_bytes(version))
        report = {"version": version, "files": 3, "bytes": 1000, "difference": {"added": 3, "unchanged": 0}}
        report["notices"] = self.notices()
        return version, str(path), json.dumps(report)

    def origins(self) -> list[tuple[str, str]]:
        return [(mount["path"], f"canonical:{mount['path']}") for mount in self.config["origins"]]

    def set_view(self, view_json: str) -> None:
        self.views.append(json.loads(view_json))

    def load(self, paths: list[bytes], **wanted: Any) -> StepJob:
        self.loads.append((paths, wanted))
        self.jobs.append(StepJob())
        return self.jobs[-1]

    def evict(self, paths: list[bytes]) -> int:
        self.evicted.append(paths)
        return 4096

    def file_ids(self, paths: list[bytes]) -> bytes:
        return b"".join(path.ljust(16, b"0")[:16] for path in paths)

    def metrics(self) -> str:
        return "# EOF\n"

    def close(self) -> None:
        self.closed = True


class StepJob:
    """A job that is half done until it is told to end."""

    def __init__(self) -> None:
        self.report: dict[str, Any] = {
            "state": "running",
            "done_bytes": 50,
            "total_bytes": 100,
            "done_files": 1,
            "total_files": 2,
        }
        self._ended = threading.Event()

    def end(self, **report: Any) -> None:
        self.report = {**self.report, "state": "done", "done_bytes": 100, "done_files": 2, **report}
        self._ended.set()

    def progress(self) -> str:
        return json.dumps(self.report)

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def cancel(self) -> None:
        self.report["state"] = "cancelled"
        self._ended.set()


def snapshot_bytes(version: int, size: int = 200_000) -> bytes:
    """A file with the header of docs/format/snapshot.md; the rest is anything."""
    head = bytearray(512)
    struct.pack_into("<8sIIQQ", head, 0, b"\x89HRSNP\r\n", 1, 512, size, version)
    struct.pack_into("<QQQQ", head, 48, 3, 1, 0, 1000)
    return bytes(head) + bytes(version % 251 for _ in range(size - 512))


def _versions(state: Path) -> list[int]:
    return [int(path.stem.removeprefix("snapshot-")) for path in state.glob("snapshot-*.hrs")]
