"""A double of the native module for unit tests of what stands above it: one folder as the only origin, no cache.

It keeps the promises of `headrace/_native.pyi` that Python relies on, in memory, and remembers what it was told. The
real module is tested against real servers and mounts in tests/integration.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.errors import BusyError, DirectoryInsteadError, MissingFileError

CONFIG_NAME = "double.json"


def make_module(**replaced: Any) -> SimpleNamespace:
    """A module with an `Engine` class of its own, whose `opened` lists every engine that was made."""

    class Engine(DoubleEngine):
        opened: list[DoubleEngine] = []

    names = {
        "Engine": Engine,
        "version": lambda: "9.9.9",
        "is_debug_build": lambda: False,
        "set_log": lambda *_args, **_kwargs: None,
    }
    return SimpleNamespace(**{**names, **replaced})


class DoubleJob:
    """A job that ends at once, or never when `stuck`."""

    def __init__(self, report: dict[str, Any], *, stuck: bool = False) -> None:
        self.report = report
        self.stuck = stuck

    def progress(self) -> str:
        return json.dumps(self.report)

    def wait(self, timeout_s: float) -> bool:
        if self.stuck and self.report["state"] == "running":
            raise KeyboardInterrupt
        return True

    def cancel(self) -> None:
        self.report["state"] = "cancelled"


class DoubleMount:
    def __init__(self, mountpoint: str, options: dict[str, Any]) -> None:
        self.mountpoint, self.mode, self.options = mountpoint, "classic", options
        self.mounted = True
        self.busy = False
        self.handed_over = False
        self.resumed = 0
        self.connection: str | None = None

    def hand_over(self) -> None:
        self.handed_over, self.mounted = True, False

    def wait(self, timeout_s: float) -> bool:
        return not self.mounted

    def unmount(self, *, force: bool) -> None:
        if self.busy and not force:
            raise BusyError.of(f"{self.mountpoint} is in use")
        self.mounted = False


class DoubleEngine:
    opened: list[DoubleEngine]

    def __init__(self, config: dict[str, Any], role: str) -> None:
        self.config, self.role, self.process = config, role, os.getpid()
        self.prefetched: list[list[bytes]] = []
        self.evicted: list[list[bytes]] = []
        self.synced: list[Any] = []
        self.warmed: list[list[bytes]] = []
        self.closed = False
        self.job = {"state": "done", "done_bytes": 10, "total_bytes": 10, "done_files": 1, "total_files": 1}
        self.stuck = False
        self.version = 0
        self.names: dict[bytes, os.stat_result] = {}
        self._take_snapshot()
        self.opened.append(self)

    @classmethod
    def open(cls, config_json: str) -> DoubleEngine:
        config = json.loads(config_json)
        Path(config["state_directory"], CONFIG_NAME).write_text(config_json)
        return cls(config, "owner")

    @classmethod
    def own(cls, config_json: str) -> DoubleEngine:
        return cls.open(config_json)

    @classmethod
    def attach(cls, state_directory: str, waits: bool = False) -> DoubleEngine:
        try:
            return cls(json.loads(Path(state_directory, CONFIG_NAME).read_text()), "attached")
        except FileNotFoundError:
            raise MissingFileError.of(f"nothing serves {state_directory}") from None

    @property
    def root(self) -> bytes:
        return os.fsencode(self.config["origins"][0]["origin"]["directory"])

    def _take_snapshot(self) -> None:
        self.version += 1
        self.names = {b"": os.stat(self.root)}
        for parent, folders, files in os.walk(self.root):
            for name in folders + files:
                full = os.path.join(parent, name)
                self.names[full[len(self.root) + 1 :]] = os.stat(full)

    def _entry(self, path: bytes) -> Any:
        self._check()
        try:
            found = self.names[path]
        except KeyError:
            raise MissingFileError.of(f"{os.fsdecode(path)} is not there") from None
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
        return SimpleNamespace(
            path=path,
            kind=kind,
            size=found.st_size,
            mtime_ns=found.st_mtime_ns,
            inode=found.st_ino,
            etag=None,
        )

    def _check(self) -> None:
        assert self.process == os.getpid(), "an inherited engine was used in a forked child"
        assert not self.closed

    def close(self) -> None:
        assert self.process == os.getpid()
        self.closed = True

    def stat(self, path: bytes) -> Any:
        return self._entry(path)

    def list(self, path: bytes, after: bytes | None, limit: int) -> list[Any]:
        if self._entry(path).kind != "directory":
            raise NotADirectoryError(20, "a file, not a directory")
        prefix = path + b"/" if path else b""
        below = {name[len(prefix) :] for name in self.names if name.startswith(prefix) and name != path}
        children = sorted(name for name in below if b"/" not in name and (after is None or name > after))
        return [self._entry(prefix + name) for name in children[:limit]]

    def read_into(self, path: bytes, offset: int, buffer: Any) -> int:
        if self._entry(path).kind == "directory":
            raise DirectoryInsteadError.of("a directory")
        with open(os.path.join(self.root, path), "rb") as file:
            file.seek(offset)
            return file.readinto(memoryview(buffer).cast("B"))

    def read_version(self, entry: Any, offset: int, buffer: Any) -> int:
        return self.read_into(entry.path, offset, buffer)

    def read_many(self, paths: Any, offsets: Any, buffers: Any) -> Any:
        return [self.read_into(*each) for each in zip(paths, offsets, buffers, strict=True)]

    def prefetch(self, paths: Any) -> None:
        self._check()
        self.prefetched.append([*paths])

    def warm(self, paths: Any) -> DoubleJob:
        self.warmed.append([*paths])
        return DoubleJob(self.job, stuck=self.stuck)

    verify = warm

    def evict(self, paths: Any) -> int:
        self.evicted.append([*paths])
        return 2048

    def sync(self, ours: Any, theirs: Any) -> int:
        self.synced.append(([*ours], [*theirs]))
        return 1 + len(ours) + len(theirs)

    def refresh(self) -> str:
        before = set(self.names)
        self._take_snapshot()
        after = set(self.names)
        return json.dumps(
            {"version": self.version, "added": len(after - before), "removed": len(before - after)}
        )

    def totals(self) -> tuple[int, int]:
        sizes = [entry.st_size for entry in self.names.values() if stat.S_ISREG(entry.st_mode)]
        return len(sizes), sum(sizes)

    def status(self) -> str:
        files = [entry for entry in self.names.values() if stat.S_ISREG(entry.st_mode)]
        return json.dumps(
            {
                "name": self.config["name"],
                "pid": self.process,
                "snapshot": {
                    "version": self.version,
                    "files": len(files),
                    "bytes": sum(e.st_size for e in files),
                },
                "cached_bytes": 0,
                "levels": [
                    {"medium": "SSD", "folders": ["/ssd"], "quota_bytes": 1 << 30, "used_bytes": 1 << 29}
                ],
                "reads": {"hit_bytes": 3, "miss_bytes": 1, "origin_bytes": 1},
                "a field of a newer engine": 1,
            }
        )

    def metrics(self) -> str:
        return "# TYPE headrace_fills counter\nheadrace_fills_total 0\n# EOF\n"

    def mount(self, mountpoint: str, options_json: str) -> DoubleMount:
        return DoubleMount(mountpoint, json.loads(options_json))
