"""An engine as the rest of Python sees it: typed, and safe in forked children.

A forked child inherits the handle but none of the engine's threads. There, the first call attaches to the process that
owns the engine (which may be the parent) through its socket. A handle can be pickled where its configuration can.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from headrace.engine import native
from headrace.engine.key_renewal import KeyRenewal, renewed_while_opening
from headrace.engine.status import EngineReport, JobReport, RefreshReport
from headrace.errors import BusyError
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.key_sources import KeySource
from headrace.trusted_folders import check_folder, make_folder

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from headrace import _native

# What a child inherited by fork: never used and never dropped, since the threads that its destructor would join stayed
# in the parent.
_inherited: list[object] = []


class TreeEntry(Protocol):
    """One name of the tree; `kind` is `file`, `directory` or `symlink`."""

    @property
    def path(self) -> bytes: ...
    @property
    def kind(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def etag(self) -> bytes | None: ...


class Engine:
    """One dataset on this machine: the owner of its cache, or attached to the process that owns it."""

    def __init__(
        self,
        opened: _native.Engine,
        reopen: Callable[[], _native.Engine],
        state: Path,
        renewal: KeyRenewal | None = None,
    ) -> None:
        self._native: _native.Engine | None = opened
        self._renewal = renewal
        self._reopen = reopen
        self._must_reopen = False
        self._lock = threading.Lock()
        self.state_directory = state
        if renewal is not None:
            # For whoever forgets to close.
            weakref.finalize(self, renewal.close)
        _open_engines.add(self)

    @classmethod
    def open(cls, config: EngineConfig, keys: Sequence[KeySource] = ()) -> Self:
        """Owns the cache, or attaches to the process that does. Takes a first snapshot if there is none. An owner
        renews its keys from `keys`.
        """
        text = config.to_json()
        state = config.state_directory
        make_folder(state)
        with renewed_while_opening(keys, config) as renewal:
            opened = native.engine_class().open(text)
        if opened.role != "owner":
            renewal.close()
            _check_exclude(config, opened)
        return cls(opened, lambda: native.engine_class().open(text), state, renewal)

    @classmethod
    def own(cls, config: EngineConfig, keys: Sequence[KeySource] = ()) -> Self:
        """Owns the cache; raises `BusyError` when another process does. A forked child of the owner attaches to it."""
        state = config.state_directory
        make_folder(state)
        with renewed_while_opening(keys, config) as renewal:
            opened = native.engine_class().own(config.to_json())
        return cls(opened, lambda: native.engine_class().attach(str(state), waits=True), state, renewal)

    @classmethod
    def resume(
        cls,
        config: EngineConfig,
        settings: MountSettings,
        kept: tuple[str, int, int, int | None],
        relay: int | None,
        keys: Sequence[KeySource] = (),
    ) -> tuple[Self, _native.Mount]:
        """Takes the place of a process that is gone, and goes on with its mount: `kept` is what `Mount.keep` returned
        there, `relay` a way to the kernel as for `Mount.send_through`. The descriptors belong to the engine from here
        on.
        """
        state = config.state_directory
        with renewed_while_opening(keys, config) as renewal:
            text = renewal.current(config).to_json()
            opened, mount = native.engine_class().resume(text, _mount_options(settings), kept, relay)
        return cls(
            opened, lambda: native.engine_class().attach(str(state), waits=True), state, renewal
        ), mount

    @classmethod
    def attach(cls, state_directory: Path, *, waits: bool = False) -> Self:
        """Attaches to the process that serves this state folder; with `waits`, to the next one if that has just died.

        Either way the attachment goes on with the next process when this one dies, for a minute at most.
        """

        # Whoever could put a socket there could answer in the place of the process that owns the cache.
        with suppress(FileNotFoundError, NotADirectoryError):
            check_folder(state_directory)

        def attach(waits: bool = True) -> _native.Engine:
            return native.engine_class().attach(str(state_directory), waits=waits)

        return cls(attach(waits), attach, state_directory)

    @property
    def native(self) -> _native.Engine:
        """The native engine of this process."""
        if self._must_reopen:
            with self._lock:
                if self._must_reopen:
                    self._native = self._reopen()
                    self._must_reopen = False
        opened = self._native
        if opened is None:
            raise ValueError("the engine is closed")
        return opened

    @property
    def role(self) -> str:
        """`owner` or `attached`."""
        return self.native.role

    def close(self) -> None:
        """Ends the engine (an owner's mounts, too) or the attachment; further calls raise `ValueError`."""
        self._must_reopen = False
        opened, self._native = self._native, None
        renewal, self._renewal = self._renewal, None
        try:
            if opened is not None:
                opened.close()
        finally:
            if renewal is not None:
                renewal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stat(self, path: bytes) -> TreeEntry:
        """The facts about a file, directory or link."""
        return self.native.stat(path)

    def list(self, path: bytes, *, after: bytes | None = None, limit: int = 10_000) -> Sequence[TreeEntry]:
        """Up to `limit` children in name order, those after the name `after`."""
        return self.native.list(path, after, limit)

    def read_into(self, path: bytes, offset: int, buffer: Buffer) -> int:
        """Fills `buffer` from `offset`; fewer bytes only at the end of the file."""
        return self.native.read_into(path, offset, buffer)

    def read_version(self, entry: TreeEntry, offset: int, buffer: Buffer) -> int:
        """As `read_into`, of the version of a file that `stat` told of; `StaleDataError` when it is not to be had."""
        return self.native.read_version(cast("_native.Entry", entry), offset, buffer)

    def read_many(
        self, paths: Sequence[bytes], offsets: Sequence[int], buffers: Sequence[Buffer]
    ) -> Sequence[int]:
        """Reads many ranges at once into the caller's memory; the bytes read of each."""
        return self.native.read_many(paths, offsets, buffers)

    def prefetch(self, paths: Sequence[bytes]) -> None:
        """Tells in which order whole files will be read; returns at once; replaces the order told before."""
        self.native.prefetch(paths)

    def warm(self, paths: Sequence[bytes]) -> Job:
        """Starts to bring files and folders in; the empty path is everything."""
        return Job(self.native.warm(paths))

    def verify(self, paths: Sequence[bytes]) -> Job:
        """Starts to compare what is cached with its checksums."""
        return Job(self.native.verify(paths))

    def evict(self, paths: Sequence[bytes]) -> int:
        """Drops files and folders from the cache; the bytes given back."""
        return self.native.evict(paths)

    def refresh(self) -> RefreshReport:
        """Takes a new snapshot, and tells what it changed."""
        return RefreshReport.model_validate_json(self.native.refresh())

    def sync(self, *, ours: Sequence[bytes] = (), theirs: Sequence[bytes] = ()) -> int:
        """Tries once more to put what was written into the origin: at the paths `ours` whatever stands there; what was
        written at the paths `theirs` is given up. The number of names that were done.
        """
        return self.native.sync(ours, theirs)

    def set_view(self, view_json: str) -> None:
        """Goes by these workers from now on; for a member of a cluster."""
        self.native.set_view(view_json)

    def adopt_snapshot(self) -> int:
        """Moves readers on to the newest snapshot of the state folder; its version."""
        return self.native.adopt_snapshot()

    def status(self) -> EngineReport:
        """Everything that the engine says of itself."""
        return EngineReport.model_validate_json(self.native.status())

    def totals(self) -> tuple[int, int]:
        """Files of the current snapshot and their bytes, at once however many they are; of an owner only."""
        return self.native.totals()

    def metrics(self) -> str:
        """The OpenMetrics text."""
        return self.native.metrics()

    def mount(self, mountpoint: Path, settings: MountSettings) -> _native.Mount:
        """Serves the tree at `mountpoint` until it is unmounted."""
        return self.native.mount(str(mountpoint), _mount_options(settings))

    def _leave_parent(self) -> None:
        """Puts the inherited engine aside; the lock is new, since another thread may have held the old one."""
        self._lock = threading.Lock()
        # Its thread stayed in the parent.
        self._renewal = None
        if self._native is not None:
            _inherited.append(self._native)
            self._native = None
            self._must_reopen = True


def _check_exclude(config: EngineConfig, opened: _native.Engine) -> None:
    """Refuses an attachment to whoever owns the cache and leaves out something else. Who wants nothing left out takes
    what is there. Raises `BusyError`.
    """
    wanted = tuple(mount.exclude for mount in config.origins)
    if not any(each.patterns for each in wanted):
        return
    there = EngineReport.model_validate_json(opened.status()).snapshot.exclude
    if there != wanted:
        patterns = ", ".join(dict.fromkeys(pattern for each in there for pattern in each.patterns))
        raise BusyError.of(
            f"the cache of {config.name} is in use by a process that excludes {patterns or 'nothing'}",
            hint="exclude the same, or nothing, to read what it shows; or choose another cache folder",
        )


def _mount_options(settings: MountSettings) -> str:
    options: dict[str, Any] = {
        "mode": settings.mode.value,
        "allow_other": settings.allow_other,
        "allow_nonempty": settings.nonempty,
    }
    return json.dumps(options)


def _leave_parents() -> None:
    for engine in _open_engines:
        engine._leave_parent()


_open_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
os.register_at_fork(after_in_child=_leave_parents)


class Job:
    """A warm-up or verification under way."""

    def __init__(self, job: _native.Job) -> None:
        self._job = job

    def progress(self) -> JobReport:
        """How far it is."""
        return JobReport.model_validate_json(self._job.progress())

    def wait(self, timeout_s: float) -> bool:
        """True when it has ended."""
        return self._job.wait(timeout_s)

    def cancel(self) -> None:
        """Stops it; what is in stays in."""
        self._job.cancel()
