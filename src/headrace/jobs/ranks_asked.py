"""The number of ranks that a command line of `mpirun` asks for, as far as that stands there in plain words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

_STARTERS = frozenset(("mpirun", "mpiexec", "orterun", "prterun", "horovodrun"))
_COUNTS = ("-np", "--np", "-n", "--n", "-c")
_OVER = ("--oversubscribe", "-oversubscribe")


def ranks_asked(command: Sequence[str]) -> int | None:
    """The number behind `-np`; None when none is said, or more ranks than slots are wanted on purpose.

    Of a line for a shell only what is plain is understood: no substitution, one program.
    """
    words = _words(command)
    if not words or PurePosixPath(words[0]).name not in _STARTERS:
        return None
    if any(word in _OVER or "oversubscribe" in word.lower() for word in words):
        return None
    for number, word in enumerate(words[1:], start=1):
        name, equals, value = word.partition("=")
        if name in _COUNTS:
            count = value if equals else "".join(words[number + 1 : number + 2])
            return int(count) if count.isascii() and count.isdigit() else None
    return None


def _words(command: Sequence[str]) -> list[str]:
    if len(command) != 1:
        return list(command)
    line = command[0]
    if any(sign in line for sign in "$`;&|<>(){}\n"):
        return []
    try:
        return shlex.split(line)
    except ValueError:
        return []
