"""Processes in mount namespaces of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Says when it stands in its own namespace, and goes when its input ends.
HOLDER = "import sys; held = open(sys.argv[1]) if sys.argv[1] else None; print('there', flush=True); sys.stdin.read()"


@contextmanager
def holder(path: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a mount namespace with copies of all mounts, which has `path` open."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", HOLDER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        yield process
        assert process.poll() is None, "it has outlived all"
        process.kill()
