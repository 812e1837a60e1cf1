"""Processes of a cluster: started with a mark in their environment, and found again by it.

They outlive whoever started them, and nobody needs to write down their numbers.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.local.processes.process_tags import TaggedProcess, end, tag_of, tagged_processes
from headrace.process.stat import stat_of
from headrace.settings.environment import ROLE_MARK
from headrace.testing.kubernetes.programs import SEARCH_PATH

_WAIT_S = 120.0
_POLL_S = 0.05


def start(
    command: Sequence[str],
    *,
    instance: str,
    role: str,
    log_path: Path,
    prefix: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> None:
    """Starts a process of a role and leaves it running once it is itself. It gets nothing of our environment."""
    environment = {"PATH": SEARCH_PATH, "HOME": "/root", **(variables or {})}
    environment[ROLE_MARK] = tag_of(instance, role)
    with log_path.open("ab") as log:
        # A child of nobody's: it outlives us, and needs nobody of us to take note of its end.
        subprocess.run(
            ["setsid", "--fork", *prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd="/",
            check=True,
        )
    # Until then it is one of the programs that stand before it.
    program = resolved_name(command[0])
    _wait(
        lambda: is_running(instance, role, program),
        lambda: f"{program} did not start: see {log_path}; of {role} there is {_described(instance, role)}",
    )


def processes_of(instance: str, role: str) -> list[TaggedProcess]:
    """The living processes of a role, with all that it has started."""
    return [each for each in tagged_processes(instance) if each.role == role]


def is_running(instance: str, role: str, program: str) -> bool:
    """True if the program itself lives, not only what it has started."""
    return any(program_of(each.pid) == program for each in processes_of(instance, role))


def kill_program(instance: str, role: str, program: str, signal_number: int = signal.SIGKILL) -> None:
    """Ends the program of a role at once, as a crash would; what it has started goes on."""
    killed = [each for each in processes_of(instance, role) if program_of(each.pid) == program]
    if not killed:
        raise ProcessLookupError(f"{program} does not run as {role}")
    end(killed, signal_number)
    if signal_number == signal.SIGKILL:
        _wait(lambda: not any(map(_has_something, killed)), lambda: f"{program} cannot be killed")


def _has_something(process: TaggedProcess) -> bool:
    """Whether something is left of a process that ends: its program is gone first, its sockets last, perhaps with a
    thread that outlives the first one."""
    stat = stat_of(process.pid)
    if stat is None or stat.started_ticks != process.started_ticks:
        return False
    try:
        return not stat.has_ended or len(list(Path(f"/proc/{process.pid}/task").iterdir())) > 1
    except FileNotFoundError:
        return False


def kill_all(instance: str, roles_prefix: str = "") -> None:
    """Ends everything whose role begins so, until nothing is left."""
    deadline = time.monotonic() + _WAIT_S
    while alive := [each for each in tagged_processes(instance) if each.role.startswith(roles_prefix)]:
        end(alive, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"cannot be killed: {', '.join(f'{each.role} ({each.pid})' for each in alive)}"
            )
        time.sleep(_POLL_S)


def resolved_name(program: str) -> str:
    """The name that `program_of` gives to a program: `sh` is a link, and so is a virtual environment's Python."""
    found = shutil.which(program, path=SEARCH_PATH) or program
    return Path(found).resolve().name


def program_of(pid: int) -> str:
    """The name of the file that a process runs; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)")
    except OSError:
        return ""


def first_of_namespace(instance: str, role: str) -> int | None:
    """The process of a role that is the first in its own process namespace, by its number here."""
    for each in processes_of(instance, role):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{each.pid}/status").read_text().splitlines()
            numbers = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
            if len(numbers) > 1 and numbers[-1] == "1":
                return each.pid
    return None


def _described(instance: str, role: str) -> str:
    """What lives of a role, in words: who stands before a program that does not start, and what it waits for."""
    words = [
        f"{program_of(each.pid)} ({each.pid}{_waits(each.pid)})" for each in processes_of(instance, role)
    ]
    return ", ".join(words) or "no process"


def _waits(pid: int) -> str:
    with contextlib.suppress(OSError):
        if stat := stat_of(pid):
            return f", state {stat.state} in {Path(f'/proc/{pid}/wchan').read_text() or 'nothing'}"
    return ""


def _wait(is_so: Callable[[], bool], complaint: Callable[[], str]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint())
        time.sleep(_POLL_S)
