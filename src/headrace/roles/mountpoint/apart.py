"""Runs what may hang in the kernel in a process of its own.

A thread that waits for a mount whose process is away can be beyond the reach of every signal, and would keep its whole
process from ending, with all the descriptors that it has open: among them the one whose closing would free the thread.
So whoever keeps descriptors of mounts touches no mount, and has a child do it that inherits nothing.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

ANSWER_S = 3.0
"""How long a mount that is well takes to say so, at most."""
# Neither settings of the environment nor the packages of the site: it starts in a few milliseconds.
_PYTHON = (sys.executable, "-I", "-S")
_ASK = """
import os, sys
try:
    found = os.statvfs(sys.argv[1])
except OSError as error:
    sys.exit(error.errno)
print(found.f_frsize, found.f_blocks, found.f_bfree, found.f_files, found.f_ffree)
"""

_left: list[subprocess.Popen[str]] = []
"""Killed, and not gone yet."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended; `stderr` and `stdout` are small."""

    code: int
    stdout: str
    stderr: str


class Health(Enum):
    """Of what is mounted somewhere."""

    ANSWERS = "answers"
    DEAD = "dead"
    SILENT = "silent"
    """It may answer later: its process is away, and its connection open."""


@dataclass(frozen=True)
class Usage:
    """The size of a file system, as `statvfs` tells it."""

    block_bytes: int
    blocks: int
    free_blocks: int
    files: int
    free_files: int


def run_apart(words: Sequence[str], *, timeout_s: float) -> Outcome | None:
    """Runs a program; `None` when it did not end in time. It is killed then, and not waited for."""
    _left[:] = [process for process in _left if process.poll() is None]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/"
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        _left.append(process)
        return None
    return Outcome(process.returncode, stdout, stderr)


def health_of(path: str, timeout_s: float = ANSWER_S) -> Health:
    """The health of the mount at `path`. Blocks for `timeout_s` at most."""
    return ask(path, timeout_s)[0]


def ask(path: str, timeout_s: float = ANSWER_S) -> tuple[Health, Usage | None]:
    """The same, with the size that it tells."""
    outcome = run_apart([*_PYTHON, "-c", _ASK, os.fspath(path)], timeout_s=timeout_s)
    if outcome is None:
        return Health.SILENT, None
    if outcome.code == 0:
        return Health.ANSWERS, Usage(*map(int, outcome.stdout.split()))
    return (Health.DEAD if outcome.code in (errno.ENOTCONN, errno.ECONNABORTED) else Health.SILENT), None
