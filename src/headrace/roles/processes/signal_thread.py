"""Signals that are heard while the first thread waits.

Python runs a handler in the first thread, between two of its steps. A signal that comes just before that thread begins
to wait for a lock (a queue's, say), or that the kernel gives to another thread, wakes nobody: the handler would run
when the wait is over, which may be never. The number of the signal is written to a descriptor at once, whatever thread
it came to.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterable


def hear_signals(numbers: Iterable[signal.Signals], take: Callable[[signal.Signals], None]) -> None:
    """Calls `take` with each of these signals, in a thread of its own. To be called in the first thread, once."""
    heard = frozenset(numbers)
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def listen() -> None:
        while arrived := reader.recv(64):
            for number in arrived:
                if number in heard:
                    take(signal.Signals(number))

    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
    for number in heard:
        signal.signal(number, lambda *_: None)
    threading.Thread(target=listen, name="signals", daemon=True).start()
