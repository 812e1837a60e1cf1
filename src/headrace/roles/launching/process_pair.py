"""Forks the command: the child becomes the mount process, the parent its supervisor.

All that the mount process begins with is loaded already, so no other Python has to begin for it. The supervisor is
another program, as small as ever. Words and variables of the called process must hold no credential: they stay readable
in /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from headrace.roles.launching.exposure import hide_credentials, shows_credential
from headrace.roles.launching.launch import SUPERVISOR, LaunchedMount, become, launch, raise_file_limit
from headrace.roles.messages import MountSpec
from headrace.roles.supervision import lifeline
from headrace.roles.supervision.copied_process import CopiedProcess
from headrace.roles.supervision.lifeline import Lifeline, Message
from headrace.roles.supervision.relay import Relay
from headrace.roles.supervision.renewal import SIGNALS
from headrace.settings.environment import Environment

_FAULT = 1


def may_be_copied(spec: MountSpec, environment: Environment, words: Iterable[str]) -> bool:
    """True if a copy of this process, with these words, may serve the mount: nothing readable in /proc is a secret, no
    keeper's mount has to be found before, and no thread of ours could hold a lock that the copy would wait for.
    """
    return not (spec.keeper is not None or _has_threads() or shows_credential(spec, environment, words))


def _has_threads() -> bool:
    return len(list(Path("/proc/self/task").iterdir())) > 1


def serve_mount(spec: MountSpec, environment: Environment) -> int:
    """Serves a mount in the foreground to its end: the exit code, in a copy of this process; this one becomes the
    supervisor, by itself where it may not be copied. Its variables that hold credentials are unset.
    """
    environment = hide_credentials(spec, environment)
    return begin_pair(spec) if may_be_copied(spec, environment, sys.argv) else become(spec, environment)


def launch_mount(spec: MountSpec, environment: Environment) -> LaunchedMount:
    """Starts a mount in the background. Variables of this process that hold credentials are unset."""
    environment = hide_credentials(spec, environment)
    return launch_pair(spec) if may_be_copied(spec, environment, sys.argv) else launch(spec, environment)


def launch_pair(spec: MountSpec) -> LaunchedMount:
    """Starts the pair in the background, of which the first process is a copy of this one (see `may_be_copied`)."""
    answer, their_answer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # Until the answer is waited for: what a handler raises while Python calls its hooks after a fork is lost.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    pid = os.fork()
    if pid:
        os.close(their_answer)
        return LaunchedMount(CopiedProcess(pid), answer, spec.log_file, mask)
    code = _FAULT
    # Nothing of the command that was called goes on here.
    try:
        os.close(answer)
        _detach(spec, their_answer)
        code = begin_pair(spec, their_answer)
    finally:
        os._exit(code)


def begin_pair(spec: MountSpec, answer: int | None = None) -> int:
    """Serves as the mount process, in a copy of this process; its exit code. In this one it does not return.

    For a mount that no keeper holds. `answer` is a descriptor on which somebody waits. Raises `OSError` when the
    supervisor cannot begin.
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
        _become_supervisor(spec, descriptor, (pid, line.fileno(), relay.fileno()), answer)
    # A Ctrl-C is for the supervisor, who ends it in order.
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    line.close()
    relay.close()
    os.close(descriptor)
    return _serve(spec, their_line, answer)


def _detach(spec: MountSpec, answer: int) -> None:
    """From the session, the folder and the files of who called. Descriptors of our own end with a program; others that
    were inherited, a lock of a shell's say, would be held as long as the mount.
    """
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2) if spec.log_file else (0, 1):
        os.dup2(null, number)
    os.close(null)
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):
            if number not in (0, 1, 2, answer) and os.get_inheritable(number):
                os.close(number)


def _become_supervisor(
    spec: MountSpec, descriptor: int, begun: tuple[int, int, int], answer: int | None
) -> NoReturn:
    pid, *ours = begun
    after = () if answer is None else (answer,)
    for inherited in (descriptor, *ours, *after):
        os.set_inheritable(inherited, True)
    words = [str(spec.mountpoint), str(descriptor), "begun", *map(str, (*begun, *after))]
    try:
        os.execv(sys.executable, [*SUPERVISOR, *words])  # noqa: S606 - our own program
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise


def _serve(spec: MountSpec, line: Lifeline, answer: int | None) -> int:
    # Here, since the supervisor needs nothing of it.
    from headrace.roles.processes.mount import begin  # noqa: PLC0415
    from headrace.roles.supervision.supervised import Supervision  # noqa: PLC0415

    return begin(spec, Supervision(line), answer)
