"""The running mounts of this machine: one small file each, written by the mount process, read by every command.

No credentials stand in it. An entry whose process is gone, or whose process number was given to another program, is
stale and is removed by whoever meets it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from headrace.engine.registry_entry import Entry
from headrace.errors import MissingFileError
from headrace.trusted_folders import check_folder, make_folder


class Registry:
    """The folder of entries."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def add(self, entry: Entry) -> None:
        """Writes an entry, whole or not at all."""
        make_folder(self.directory, 0o755)
        target = self._file(entry.mountpoint)
        draft = target.with_suffix(f".{entry.pid}.draft")
        draft.write_text(entry.to_json(), encoding="utf-8")
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
        """The last word of the process of a mount that is gone."""
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
        import hashlib  # noqa: PLC0415 - who reads all entries needs no names of files

        return self.directory / f"{hashlib.blake2b(os.fsencode(mountpoint), digest_size=8).hexdigest()}.json"

    def _word(self, mountpoint: str, pid: int) -> Path:
        return self._file(mountpoint).with_suffix(f".{pid}.word")

    def _live(self) -> Iterator[Entry]:
        try:
            # An entry of another user could lead to a process of his.
            check_folder(self.directory)
        except (FileNotFoundError, NotADirectoryError):
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
            return Entry.from_json(file.read_bytes())
        except (OSError, ValueError):
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
