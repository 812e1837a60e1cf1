"""The running mounts of this machine: one small file each, written by the mount process, read by every command.

No credentials stand in it. An entry whose process is gone, or whose process number was given to another program, is
stale and is removed by whoever meets it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from headrace.errors import MissingFileError
from headrace.process_stat import stat_of
from headrace.settings.model import Model


class Entry(Model):
    """One running mount. `started_ticks` tells its process from a later one of the same number; the same holds for the
    supervisor, which starts a new process when this one dies.
    """

    name: str
    mountpoint: str
    state_directory: str
    origins: tuple[str, ...]
    pid: int
    started_ticks: int
    started_at_s: float
    mode: str
    log_file: str | None = None
    metrics_address: str | None = None
    supervisor_pid: int | None = None
    supervisor_ticks: int | None = None
    restarts: int = 0
    last_restart: str | None = None

    @property
    def processes(self) -> list[tuple[int, int]]:
        """(number, start) of the processes that make the mount, those that have ended among them."""
        own = [(self.pid, self.started_ticks)]
        if self.supervisor_pid is None or self.supervisor_ticks is None:
            return own
        return [*own, (self.supervisor_pid, self.supervisor_ticks)]

    @property
    def is_restarting(self) -> bool:
        """True while the mount process is gone and the supervisor is about to start another."""
        return started_ticks(self.pid) != self.started_ticks and self.is_alive

    @property
    def is_alive(self) -> bool:
        """True while programs may hope for an answer."""
        return any(started_ticks(pid) == ticks for pid, ticks in self.processes)


class Registry:
    """The folder of entries."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def add(self, entry: Entry) -> None:
        """Writes an entry, whole or not at all."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        target = self._file(entry.mountpoint)
        draft = target.with_suffix(f".{entry.pid}.draft")
        draft.write_text(entry.model_dump_json(indent=2) + "\n", encoding="utf-8")
        draft.replace(target)
        for word in self.directory.glob(f"{target.stem}.*.word"):
            word.unlink(missing_ok=True)

    def remove(self, mountpoint: str, *, pid: int) -> None:
        """Removes the entry that process `pid` has written."""
        entry = self._read(self._file(mountpoint))
        if entry is not None and entry.pid == pid:
            self._file(mountpoint).unlink(missing_ok=True)

    def leave_word(self, mountpoint: str, text: str) -> None:
        """Leaves what this process could not do at its end, for whoever unmounts it."""
        with contextlib.suppress(OSError):
            self._word(mountpoint, os.getpid()).write_text(text, encoding="utf-8")

    def take_word(self, entry: Entry) -> str | None:
        """What the process of a mount that is gone has left."""
        word = self._word(entry.mountpoint, entry.pid)
        try:
            text = word.read_text(encoding="utf-8")
            word.unlink()
        except OSError:
            return None
        return text

    def entries(self) -> list[Entry]:
        """The running mounts, by mountpoint."""
        return sorted(self._live(), key=lambda entry: entry.mountpoint)

    def find(self, target: str) -> Entry | None:
        """The mount at (or around) the path `target`, or of the dataset of that name."""
        live = self.entries()
        path = Path(target).absolute()
        around = [entry for entry in live if path.is_relative_to(entry.mountpoint)]
        if around:
            return max(around, key=lambda entry: len(entry.mountpoint))
        named = [entry for entry in live if entry.name == target]
        return named[0] if named else None

    def get(self, target: str) -> Entry:
        """The same; raises `MissingFileError` when there is none."""
        entry = self.find(target)
        if entry is None:
            raise MissingFileError.of(
                f"nothing is mounted at {target}", hint="see `headrace status` for what is"
            )
        return entry

    def _file(self, mountpoint: str) -> Path:
        return self.directory / f"{hashlib.blake2b(os.fsencode(mountpoint), digest_size=8).hexdigest()}.json"

    def _word(self, mountpoint: str, pid: int) -> Path:
        return self._file(mountpoint).with_suffix(f".{pid}.word")

    def _live(self) -> Iterator[Entry]:
        if not self.directory.is_dir():
            return
        for file in sorted(self.directory.glob("*.json")):
            entry = self._read(file)
            if entry is None:
                continue
            if entry.is_alive:
                yield entry
            else:
                self._forget(file)

    @staticmethod
    def _read(file: Path) -> Entry | None:
        try:
            return Entry.model_validate_json(file.read_bytes())
        except (OSError, ValidationError):
            return None

    def _forget(self, file: Path) -> None:
        """Removes a stale entry. One that a new mount has written there meanwhile stays."""
        taken = file.with_suffix(f".{os.getpid()}.stale")
        try:
            file.rename(taken)
            entry = self._read(taken)
            if entry is not None and entry.is_alive:
                # Not over the next one, should there be another already.
                with contextlib.suppress(FileExistsError):
                    file.hardlink_to(taken)
            taken.unlink()
        except OSError:
            return  # somebody else has removed it, or it is another user's, who will


def started_ticks(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since the machine did; `None` when there is no such process."""
    with contextlib.suppress(PermissionError):
        if (stat := stat_of(pid)) and not stat.has_ended:
            return stat.started_ticks
    return None


def own_entry(*, supervisor_pid: int | None = None, **fields: object) -> Entry:
    """An entry of this process, and of the one that looks after it."""
    pid = os.getpid()
    own = {"pid": pid, "started_ticks": started_ticks(pid) or 0, "started_at_s": time.time()}
    if supervisor_pid is not None:
        own |= {"supervisor_pid": supervisor_pid, "supervisor_ticks": started_ticks(supervisor_pid) or 0}
    return Entry.model_validate({**own, **fields})
