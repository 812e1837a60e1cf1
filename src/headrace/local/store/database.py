"""The SQLite file of the local backend: opened, checked, its tables. docs/format/local-state.md describes it.

A change is acknowledged when its transaction has ended, and is on the disk then: a process killed at any moment leaves
the state before or after it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import CorruptDataError, NoSpaceError, UnsupportedError
from headrace.trusted_folders import open_file

MAGIC = 0x48524C53  # "HRLS"
VERSION = 1
_BUSY_S = 10.0
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE objects (
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    resource_version INTEGER NOT NULL,
    created TEXT NOT NULL,
    deleted TEXT,
    finalizers TEXT NOT NULL,
    content TEXT NOT NULL,
    status TEXT,
    PRIMARY KEY (kind, namespace, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE changes (
    resource_version INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    last TEXT
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    source TEXT NOT NULL,
    count INTEGER NOT NULL,
    first TEXT NOT NULL,
    last TEXT NOT NULL,
    UNIQUE (kind, namespace, name, uid, type, reason, message, source)
) STRICT;
CREATE TABLE nodes (name TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE roles (id TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE folders (path TEXT PRIMARY KEY, part TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""


class Database:
    """One open file. Any thread may use it; transactions wait for each other."""

    def __init__(self, path: Path) -> None:
        """Opens the file, and makes it when it is absent.

        Raises `UnsupportedError` for the file of a newer release, `CorruptDataError` for what is none of ours.
        """
        self._path = path
        # SQLite gives the files beside it the same mode.
        os.close(open_file(path, os.O_RDWR | os.O_CREAT))
        path.chmod(0o600)
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=_BUSY_S
        )
        # A row that is damaged is told of by name (`rows`), and hides no other one.
        self._connection.text_factory = _text
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise CorruptDataError.of(f"{path} cannot be read: {error}", hint=_HINT) from None
        except BaseException:
            self._connection.close()
            raise
        self.instance = self.fact("instance")
        """Tells apart what this backend made from what another one did; twelve hexadecimal digits."""

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is done with the connection, or nothing. On the disk when the block has ended."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.OperationalError as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise NoSpaceError.of(
                    f"cannot change {self._path}: {error}", hint="make room there"
                ) from None

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The state at one moment."""
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("COMMIT")

    def fact(self, name: str) -> str:
        """The fact noted under a name; empty without."""
        with self._lock:
            row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else ""

    def note(self, name: str, value: str) -> None:
        """Notes it."""
        with self.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def notes(self, prefix: str) -> dict[str, str]:
        """All that is noted under names that begin so, by the rest of the name."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT name, value FROM facts WHERE substr(name, 1, ?) = ?", (len(prefix), prefix)
            ).fetchall()
        return {name.removeprefix(prefix): value for name, value in rows}

    def strike(self, name: str) -> None:
        """Forgets what is noted under a name."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (name,))

    def _open(self) -> None:
        connection = self._connection
        # FULL: an acknowledged change outlives a loss of power, too. What is deleted, Secrets among it, is overwritten.
        for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._check_or_make(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def _check_or_make(self, connection: sqlite3.Connection) -> None:
        magic = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if (magic, version) == (MAGIC, VERSION):
            return
        if magic == MAGIC:
            raise UnsupportedError.of(
                f"{self._path} is of version {version}, and this program knows {VERSION}",
                hint="use the release that wrote it",
            )
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise CorruptDataError.of(f"{self._path} is not a file of Headrace", hint=_HINT)
        connection.execute(f"PRAGMA application_id = {MAGIC}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for statement in _TABLES.split(";"):
            if statement.strip():
                connection.execute(statement)
        made = (
            ("instance", secrets.token_hex(6)),
            ("digest_key", secrets.token_hex(32)),
            ("resource_version", "0"),
        )
        connection.executemany("INSERT INTO facts VALUES (?, ?)", made)


_HINT = "move it away, and declare the objects again with `headrace apply`"


def _text(stored: bytes) -> str:
    return stored.decode(errors="surrogateescape")


def is_there(path: Path) -> bool:
    """True when there is a file that may be a database."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
