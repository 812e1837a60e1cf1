"""Cache folders, which lie where a runtime says: written down before they are made, taken away by `down`.

Older files stay: of a folder that was found empty only what came into it goes, and a folder above ours goes only if it
was made for ours and is empty again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from headrace.errors import ConfigError, RefusedError
from headrace.local.store.database import Database
from headrace.trusted_folders import check_above, check_folder, make_folder

_log = logging.getLogger("headrace.local")

_REMOVAL_PAUSES_S = (0.02, 0.1, 0.3, 0.6)


class Part(StrEnum):
    """How a folder came to be ours."""

    MADE = "made"
    FOUND = "found"
    ABOVE = "above"
    FILE = "file"
    """No folder: an empty file that something is mounted at."""


class ManagedFolders:
    """The cache folders of one backend."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def make(self, path: Path) -> Path:
        """The folder, empty or with what an earlier call's user left in it.

        Raises `ConfigError` for one that is not ours and holds something, `RefusedError` without rights, and for one
        that other users could change.
        """
        try:
            if self._all().get(path) in (Part.MADE, Part.FOUND):
                make_folder(path)
            elif path.is_dir():
                self._take(path)
            else:
                self._make(path)
        except (ConfigError, RefusedError):
            raise
        except PermissionError:
            raise RefusedError.of(
                f"{path} may not be made by this user", hint="name another folder"
            ) from None
        except OSError as error:
            raise ConfigError.of(f"{path} cannot be made: {error.strerror}") from None
        return path

    def caches(self) -> list[Path]:
        """The folders that hold cached data."""
        return [path for path, part in self._all().items() if part in (Part.MADE, Part.FOUND)]

    def remove(self, *, keep: bool) -> None:
        """Takes away what was made; with `keep` nothing but what is written down."""
        for path, part in sorted(self._all().items(), key=lambda each: len(each[0].parts), reverse=True):
            if keep:
                break
            if part is Part.MADE:
                remove_tree(path)
            elif part is Part.FOUND:
                _empty(path)
            elif part is Part.FILE:
                _remove_if_empty(path)
            else:
                with contextlib.suppress(OSError):
                    path.rmdir()
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM folders")

    def drop(self, path: Path) -> None:
        """Takes away one folder that was made here, and what was made above it, as far as it is empty again.

        One that cannot be removed stays written down, for `remove`.
        """
        part = self._all().get(path)
        if part is Part.MADE:
            remove_tree(path)
            if path.exists():
                return
        elif part is Part.FOUND:
            _empty(path)
        # What is struck is forgotten: all at once, so that whoever dies in between leaves the next one something to do.
        self._strike(path, *self._leave(path.parents))

    def stand(self, path: Path) -> None:
        """A folder for something to be mounted at: what is there is taken as it is, what is lacking is made for now.

        Raises `ConfigError` for what is no folder, `RefusedError` without rights.
        """
        try:
            for each in (*reversed(path.parents), path):
                if not each.exists():
                    self._write(each, Part.ABOVE)
                    each.mkdir()
                    # Whatever our umask is: programs of other users go through it.
                    each.chmod(0o755)
        except PermissionError:
            raise RefusedError.of(
                f"{path} may not be made by this user", hint="name another folder"
            ) from None
        except OSError as error:
            raise ConfigError.of(
                f"{path} cannot be made: {error.strerror}", hint="name a folder that is there"
            ) from None
        if not path.is_dir():
            raise ConfigError.of(f"{path} is no folder", hint="name a folder, or a path where nothing is")

    def stand_file(self, path: Path) -> None:
        """A file for another one to be mounted at: what is there is taken as it is, what is lacking is made for now.

        Raises `ConfigError` for what is no file, `RefusedError` without rights.
        """
        self.stand(path.parent)
        try:
            if not path.exists():
                self._write(path, Part.FILE)
                path.touch(mode=0o644, exist_ok=True)
        except OSError as error:
            kind = RefusedError if isinstance(error, PermissionError) else ConfigError
            raise kind.of(f"{path} cannot be made: {error.strerror}", hint="name another path") from None
        if not path.is_file():
            raise ConfigError.of(f"{path} is no file", hint="name a file, or a path where nothing is")

    def unstand(self, path: Path, needed: Collection[Path]) -> None:
        """Takes away what `stand` and `stand_file` made and nobody needs, as far as it is empty."""
        if self._all().get(path) is Part.FILE:
            if path in needed:
                return
            _remove_if_empty(path)
            self._strike(path, *self._leave(path.parents, needed))
            return
        self._strike(*self._leave((path, *path.parents), needed))

    def _leave(self, folders: Sequence[Path], needed: Collection[Path] = ()) -> Iterator[Path]:
        """Takes away those that were made for what is gone, as far as they are empty and nobody needs them."""
        known = self._all()
        for each in folders:
            if known.get(each) is not Part.ABOVE or any(one.is_relative_to(each) for one in needed):
                return
            try:
                each.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            yield each

    def _strike(self, *paths: Path) -> None:
        with self._database.transaction() as connection:
            connection.executemany("DELETE FROM folders WHERE path = ?", [(str(path),) for path in paths])

    def _take(self, path: Path) -> None:
        check_folder(path)
        if any(path.iterdir()):
            raise ConfigError.of(
                f"the folder {path} is not empty, and not of this backend",
                hint="empty it, or name another folder",
            )
        self._write(path, Part.FOUND)

    def _make(self, path: Path) -> None:
        check_above(path)
        for above in reversed(path.parents):
            if not above.exists():
                self._write(above, Part.ABOVE)
                above.mkdir(mode=0o755)
        self._write(path, Part.MADE)
        make_folder(path)

    def _all(self) -> dict[Path, Part]:
        with self._database.reading() as connection:
            rows = connection.execute("SELECT path, part FROM folders").fetchall()
        return {Path(path): Part(part) for path, part in rows}

    def _write(self, path: Path, part: Part) -> None:
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO folders VALUES (?, ?)", (str(path), part))


def _remove_if_empty(path: Path) -> None:
    """Takes away a file that nobody has written to."""
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink() and path.stat().st_size == 0:
            path.unlink()


def remove_tree(path: Path, *, keep: Collection[Path] = ()) -> None:
    """Removes what is at a path, but for what is kept and the folders above that. Follows no link."""
    if path in keep:
        return
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        path.unlink(missing_ok=True)
    elif any(each.is_relative_to(path) for each in keep):
        _empty(path, keep=keep)
    else:
        _remove_folder(path)


def _remove_folder(path: Path) -> None:
    """Something that ends may still write into it: a file that came meanwhile must not keep the folder."""
    for pause_s in _REMOVAL_PAUSES_S:
        try:
            shutil.rmtree(path)
        except OSError:
            time.sleep(pause_s)
        if not path.exists():
            return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        _log.warning("%s cannot be removed whole: something writes into it, or is mounted in it", path)


def _empty(path: Path, *, keep: Collection[Path] = ()) -> None:
    if path.is_dir():
        for child in list(path.iterdir()):
            remove_tree(child, keep=keep)
