"""Signals of a supervisor: heard between two other events, and passed on by its own end."""

from __future__ import annotations

import os
import resource
import selectors
import signal
import socket
from collections.abc import Callable

from headrace.roles.supervision.renewal import SIGNALS


def hear_signals(
    selector: selectors.BaseSelector, take: Callable[[int], None]
) -> tuple[socket.socket, socket.socket]:
    """Takes each signal in the loop of the selector. The sockets must be kept for as long as that is wanted."""
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)

    def on_signals() -> None:
        for number in reader.recv(64):
            take(number)

    signal.set_wakeup_fd(writer.fileno())
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    selector.register(reader, selectors.EVENT_READ, on_signals)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    return reader, writer


def end_as(code: int) -> None:
    """Ends this process by the signal that ended another one; returns when that ended with an exit code."""
    if code >= 0:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
