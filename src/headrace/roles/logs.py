"""The log of a mount process: one stream, standard error, that Python and the engine both write to.

When it goes to a file, the file is renamed and begun anew before it grows large; descriptors 1 and 2 are replaced in
place, so that no writer has to know.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

from headrace.settings.log_format import LogFormat
from headrace.trusted_folders import open_file

LARGEST_BYTES = 16 << 20
KEPT_FILES = 3
_POLL_EVERY_S = 30.0
_LEVELS = {"error": "ERROR", "warn": "WARNING", "info": "INFO", "debug": "DEBUG", "trace": "DEBUG"}


class JsonLines(logging.Formatter):
    """One JSON object a line, with the fields of the engine's own lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname,
            "target": record.name,
            "fields": {"message": record.getMessage()},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def start_python_log(level: str, form: LogFormat = LogFormat.TEXT) -> None:
    """Sends Python's own log lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else text)
    logging.basicConfig(handlers=[handler], level=_LEVELS[level], force=True)


def set_python_level(level: str) -> None:
    """Changes the level of Python's own log lines."""
    logging.getLogger().setLevel(_LEVELS[level])


class LogFile:
    """Standard output and standard error, sent to a file that never grows beyond its limit by much."""

    def __init__(self, path: Path, *, largest_bytes: int = LARGEST_BYTES, kept: int = KEPT_FILES) -> None:
        self.path = path
        self._largest_bytes = largest_bytes
        self._kept = kept
        self._stopped = threading.Event()

    def begin(self) -> None:
        """Sends descriptors 1 and 2 to the file, readable by its owner only."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_file(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)

    def rotate_if_large(self) -> bool:
        """`mount.log` becomes `mount.log.1`, and so on, when it has grown large."""
        try:
            if self.path.stat().st_size < self._largest_bytes:
                return False
        except FileNotFoundError:
            self.begin()
            return True
        for number in range(self._kept, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        self.begin()
        return True

    def watch(self) -> None:
        """Looks after the size in a thread of its own."""
        threading.Thread(target=self._watch, name="log", daemon=True).start()

    def _watch(self) -> None:
        while not self._stopped.wait(_POLL_EVERY_S):
            try:
                self.rotate_if_large()
            except OSError as error:
                logging.getLogger(__name__).warning("log: cannot begin a new file: %s", error)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path
