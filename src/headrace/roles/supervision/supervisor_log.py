"""The supervisor's lines in the log of the mount process."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from headrace.trusted_folders import open_file


def say(log_file: str | None, name: str, level: str, text: str) -> None:
    """Writes one line. The mount process may have begun a new file meanwhile, so it is opened each time."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f",{int(now % 1 * 1000):03d}"
    line = f"{stamp} {level} headrace.supervisor: mount/{name}: {text}\n".encode()
    with contextlib.suppress(OSError):
        if log_file is None:
            os.write(2, line)
            return
        descriptor = open_file(Path(log_file), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, line)
        os.close(descriptor)
