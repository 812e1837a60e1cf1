"""Runs the training programs in processes of their own, to their end, with their progress on stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from progress import say

HERE = Path(__file__).parent
RUN_TIMEOUT_S = 420
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# TensorFlow talks a lot; these are the ends of our own programs' lines.
PROGRESS_ENDS = ("images trained", "a second")


class RunError(RuntimeError):
    """A training program failed; the message holds the end of what it said."""


def run_program(script: str, *arguments: str) -> dict:
    """What a script of this folder reports: the JSON of its last line."""
    command = [sys.executable, str(HERE / script), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    # A mount that hangs must not hang the demo.
    watchdog = threading.Timer(RUN_TIMEOUT_S, _kill, (process,))
    watchdog.daemon = True
    watchdog.start()
    try:
        said = _relay_progress(process)
        output = process.stdout.read() if process.stdout else ""
        if process.wait() != 0:
            raise RunError(f"`{script} {' '.join(arguments)}` ended with {process.returncode}:\n{said}")
        return json.loads(output.splitlines()[-1])
    finally:
        watchdog.cancel()
        _kill(process)


def _relay_progress(process: subprocess.Popen[str]) -> str:
    """Reads stderr to its end; its last lines."""
    said: list[str] = []
    for line in process.stderr or ():
        said = [*said[-30:], line]
        if line.rstrip().endswith(PROGRESS_ENDS):
            say(line.rstrip())
    return "".join(said)


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def drop_page_cache() -> bool:
    """Empties the kernel's page cache, so that a run starts from the disk; False without the right to."""
    os.sync()
    try:
        DROP_CACHES.write_text("3")
    except OSError:
        return False
    return True
