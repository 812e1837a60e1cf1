"""Signals reach a process wherever its first thread waits."""

from __future__ import annotations

import subprocess
import sys

# The signal is given to a thread that does nothing, while the first one waits in a lock: nothing wakes that.
PROGRAM = """
import queue, signal, threading
from headrace.roles.processes.signal_thread import hear_signals

events = queue.SimpleQueue()
hear_signals([signal.SIGTERM, signal.SIGHUP], lambda number: events.put(number.name))
idle = threading.Thread(target=threading.Event().wait, daemon=True)
idle.start()
for number in (signal.SIGTERM, signal.SIGHUP):
    threading.Timer(0.2, signal.pthread_kill, (idle.ident, number)).start()
    print(events.get(timeout=30), flush=True)
"""


def test_a_signal_is_heard_whichever_thread_has_it_while_the_first_one_waits() -> None:
    command = [sys.executable, "-c", PROGRAM]
    heard = subprocess.run(command, capture_output=True, text=True, check=True, timeout=90)
    assert heard.stdout.split() == ["SIGTERM", "SIGHUP"]
