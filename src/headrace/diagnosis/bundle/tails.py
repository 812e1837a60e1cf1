"""The end of a file that others write: never more than was asked for, and never a wait for what is no file."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def tail(path: Path, most_bytes: int) -> str:
    """Whole lines of its end. Raises `OSError`; `ValueError` for what is no plain file of this user's or root's."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no file")
        start = max(found.st_size - most_bytes, 0)
        data = os.pread(descriptor, most_bytes, start)
    finally:
        os.close(descriptor)
    text = data.decode("utf-8", "replace")
    # The first line may lack its beginning, with the name by which its credential would be known.
    return text.partition("\n")[2] if start else text
