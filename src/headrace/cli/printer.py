"""The one place that prints: data to standard output, talk to standard error, plain without a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def talk() -> Console:
    """The console for progress. Made anew each time, since tests replace the streams."""
    # Here, since most commands show none, and loading it takes as long as some of them.
    from rich.console import Console  # noqa: PLC0415

    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Tells a person something."""
    sys.stderr.write(f"{text}\n")


def warn(text: str) -> None:
    """Warns a person."""
    say(f"warning: {text}")


def data(text: str) -> None:
    """Writes a line of the answer."""
    sys.stdout.write(f"{text}\n")


def flush() -> None:
    """Hands on what was written so far, for who reads while the command goes on."""
    sys.stdout.flush()


def names(lines: Iterable[bytes]) -> None:
    """Writes file names: as they are for a program, with control characters made visible for a terminal."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        for line in lines:
            sys.stdout.write(visible(line) + "\n")
        return
    for line in lines:
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def visible(name: bytes) -> str:
    """A file name that cannot move the cursor: what is not printable is written as `\\x1b`."""
    text = os.fsdecode(name)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def as_json(value: Any) -> None:
    """Writes the answer for a program."""
    import json  # noqa: PLC0415 - most answers are for people

    data(json.dumps(value, indent=2, ensure_ascii=False))


def table(rows: Iterable[tuple[str, str]]) -> None:
    """Writes pairs of a word and its value, the values in one column; an empty word continues the one above."""
    pairs = list(rows)
    width = max((len(word) for word, _ in pairs), default=0)
    for word, value in pairs:
        data(f"  {word.ljust(width)}  {value}".rstrip())
