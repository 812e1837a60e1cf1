"""Starting a program in the place where the caller is, and the words for how it ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from headrace.local.processes.cgroups import ControlGroup

CANNOT_BEGIN = 126
"""The exit code of what could not be started, as shells have it."""

_NOT_THERE = 127


def spawn(
    command: Sequence[str],
    *,
    folder: str,
    environment: Mapping[str, str],
    descriptors: tuple[int, int, int],
    group: ControlGroup | None = None,
) -> int:
    """The process of a program that has begun, in a session of its own. The descriptors become its first three.

    It is in the control group from its first instruction on. Raises `OSError` that names the folder, the program or the
    group when it cannot begin.
    """
    # The other end is closed when the program begins; until then the child may say why it cannot.
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(command, folder, environment, descriptors, writing, group=group)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        complaint = pipe.read().decode(errors="replace")
    if not complaint:
        return pid
    os.waitpid(pid, 0)
    number, _, what = complaint.partition(" ")
    raise OSError(int(number), os.strerror(int(number)), what)


def how_it_ended(code: int) -> str:
    """`exited with 3`, or `was killed by SIGKILL`; codes above 128 are signals, as shells have it."""
    if code > 128:
        try:
            return f"was killed by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"exited with {code}"


def _become(
    command: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    descriptors: tuple[int, int, int],
    complaints: int,
    *,
    group: ControlGroup | None,
) -> NoReturn:
    """In the child: is the program from here on, or says why not."""
    what = "its control group"
    try:
        if group is not None:
            group.join()
        what = folder
        os.setsid()
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(each, signal.SIG_DFL)
        # Beyond the first three, so that none of them is written over before it is used.
        safe = [_above(descriptor) for descriptor in descriptors]
        for number, descriptor in enumerate(safe):
            os.dup2(descriptor, number)
        os.chdir(folder)
        what = command[0]
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606
    except OSError as error:
        os.write(complaints, f"{error.errno or 5} {what}".encode())
    finally:
        os._exit(_NOT_THERE)


def _above(descriptor: int) -> int:
    import fcntl  # noqa: PLC0415 - in the child alone

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
