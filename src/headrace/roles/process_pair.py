"""The process that was called becomes the two of a mount: its copy the first mount process, itself the supervisor.

All that the mount process begins with is loaded already, so no other Python has to begin for it. The supervisor is
another program, as small as ever. Words and variables of the called process must hold no credential: they stay readable
in /proc.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from headrace.roles import lifeline
from headrace.roles.launch import SUPERVISOR, raise_file_limit
from headrace.roles.lifeline import Lifeline, Message
from headrace.roles.messages import MountSpec
from headrace.roles.relay import Relay
from headrace.roles.renewal import SIGNALS


def begin_pair(spec: MountSpec) -> int:
    """Serves as the mount process, in a copy of this process; its exit code. In this one it does not return.

    For a mount that no keeper holds, in the foreground. Raises `OSError` when the supervisor cannot begin.
    """
    raise_file_limit()
    descriptor = spec.to_descriptor()
    (line, their_line), (relay, their_relay) = Lifeline.pair(), Relay.pair()
    with their_relay:
        words = {"supervisor": os.getpid(), "restarts": 0, "reason": None, "kept": None}
        line.send(Message(lifeline.BEGIN, words, (their_relay.fileno(),)))
    # A signal that comes between two programs waits for the second one; the copy has none of them.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    pid = os.fork()
    if pid:
        their_line.close()
        _become_supervisor(spec, descriptor, pid, line, relay)
    # A Ctrl-C is for the supervisor, who ends it in order.
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    line.close()
    relay.close()
    os.close(descriptor)
    return _serve(spec, their_line)


def _become_supervisor(spec: MountSpec, descriptor: int, pid: int, line: Lifeline, relay: Relay) -> NoReturn:
    numbers = (pid, line.fileno(), relay.fileno())
    for inherited in (descriptor, *numbers[1:]):
        os.set_inheritable(inherited, True)
    words = [str(spec.mountpoint), str(descriptor), "begun", *map(str, numbers)]
    try:
        os.execv(sys.executable, [*SUPERVISOR, *words])  # noqa: S606 - our own program
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise


def _serve(spec: MountSpec, line: Lifeline) -> int:
    # Here, since the supervisor needs nothing of it.
    from headrace.roles.mount import begin  # noqa: PLC0415
    from headrace.roles.supervision import Supervision  # noqa: PLC0415

    return begin(spec, Supervision(line))
