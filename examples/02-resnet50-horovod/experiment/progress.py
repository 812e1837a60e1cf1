"""What the experiment says on stderr while it runs, each line with the minutes since its start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

INTERVAL_S = 5
_started = time.monotonic()


def elapsed_s() -> float:
    return time.monotonic() - _started


def say(text: str) -> None:
    minutes, seconds = divmod(int(elapsed_s()), 60)
    print(f"[{minutes:2d}:{seconds:02d}] {text}", file=sys.stderr, flush=True)


def say_sometimes() -> Callable[[str], None]:
    """Says what it is told, indented, but at most every few seconds."""
    last_s = [time.monotonic()]

    def maybe(text: str) -> None:
        if time.monotonic() - last_s[0] >= INTERVAL_S:
            last_s[0] = time.monotonic()
            say(f"    {text}")

    return maybe
