"""A disk that hangs: whoever writes there waits until it is let go, whoever holds it frozen may be killed meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from headrace.testing.cluster.node import UnsupportedError

_PROGRAMS = ("mkfs.ext4", "fsfreeze", "mount")
# Thaws when its input ends, as it does with whoever started it.
_HOLD = 'fsfreeze --freeze "$1" && echo frozen && read -r _; fsfreeze --unfreeze "$1"'
_TIMEOUT_S = 60.0


def mount_disk(folder: Path, size_bytes: int) -> None:
    """Makes a folder a disk that can be frozen, and goes with its bed; UnsupportedError without the rights."""
    lacking = [program for program in _PROGRAMS if shutil.which(program) is None]
    if lacking or os.geteuid() != 0:
        raise UnsupportedError(f"a disk that hangs needs root, and {', '.join(lacking or _PROGRAMS)}")
    image = folder.with_name(f"{folder.name}.disk")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    for words in (["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(folder)]):
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if done.returncode != 0:
            raise UnsupportedError(f"this machine mounts no disk from a file: {done.stderr.strip()}")


@contextlib.contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """Nothing is written on the disk of this folder meanwhile."""
    words = ["sh", "-c", _HOLD, "hold", str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holding:
        assert holding.stdout is not None
        assert holding.stdin is not None
        try:
            if holding.stdout.readline() != "frozen\n":
                raise UnsupportedError(f"{folder} cannot be frozen here")
            yield
        finally:
            holding.stdin.close()
            holding.wait(_TIMEOUT_S)
