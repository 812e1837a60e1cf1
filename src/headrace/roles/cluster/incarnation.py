"""A number that grows with each start of a worker, also when the clock of its machine goes back."""

from __future__ import annotations

import os
import time
from pathlib import Path


def next_incarnation(folder: Path, now_ns: int | None = None) -> int:
    """The time in nanoseconds, or one more than the last number if that is larger; kept in the folder."""
    path = folder / "incarnation"
    number = max(now_ns if now_ns is not None else time.time_ns(), _last(path) + 1)
    draft = path.with_name(".incarnation.draft")
    with draft.open("w", encoding="ascii") as file:
        file.write(f"{number}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return number


def _last(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdigit() and len(text) < 19 else 0
