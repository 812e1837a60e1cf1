"""A server process of a test: started in a group of its own, logged to a file, never left behind.

Knows nothing of what the process serves. `setpriv --pdeathsig` makes the kernel end it when the thread that
started it dies, even by SIGKILL, so start servers from a thread that lives as long as they should.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.process.stat import process_tree, stat_of

POLL_INTERVAL_S = 0.02
LOG_TAIL_BYTES = 2000
# Between those that training jobs use and those that Kubernetes gives to services.
_FIRST_PORT, _LAST_PORT = 24_000, 29_999
# Not that of `random`, which tests seed: two of them would choose the same ports.
_CHANCE = random.SystemRandom()
# Who got one of the ports before these has begun to listen, or has ended.
_MOST_CLAIMS = 32
_STANDSTILL_DEADLINE_S = 60
_START_ATTEMPTS = 5
_STOPPED, _ENDED, _UNINTERRUPTIBLE = "Tt", "ZX", "D"
_claims: deque[int] = deque()


class ServerStartError(RuntimeError):
    """A test server did not become ready; the message holds the end of its log."""


class ServerProcess:
    """One running server; `stop()` or leaving the `with` block ends its whole process group."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_path: Path,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        pass_files: Sequence[int] = (),
    ) -> None:
        """`prefix` (such as `ip netns exec NAME`) must exec, not fork. `environment` is added to ours.

        `pass_files` are descriptors that it shares with us.
        """
        self.name = Path(command[0]).name
        self.log_path = log_path
        argv = [*prefix, *_die_with_parent(), *command]
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                pass_fds=tuple(pass_files),
            )

    @property
    def pid(self) -> int:
        """Of the process itself: `prefix` and what ends it with its parent have given way to it."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        return self._process.poll()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, is_ready: Callable[[], bool], *, timeout_s: float = 60) -> None:
        """Returns once `is_ready` says so; `ServerStartError` when the process ended or time ran out."""
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.is_running():
                raise ServerStartError(
                    f"{self.name} ended with {self._process.returncode}: {self.log_tail()}"
                )
            if time.monotonic() > deadline:
                self.stop()
                raise ServerStartError(f"{self.name} was not ready after {timeout_s} s: {self.log_tail()}")
            time.sleep(POLL_INTERVAL_S)

    def wait(self, timeout_s: float) -> int:
        """Its exit code, once it has ended by itself; TimeoutError when it does not."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{self.name} did not end within {timeout_s:g} s") from error

    def log_tail(self) -> str:
        return self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()

    def stop(self, *, timeout_s: float = 30) -> None:
        """Ends the process group: SIGTERM, then SIGKILL. Safe to call twice."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_running():
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)

    def kill(self) -> None:
        """Ends the process and all that descend from it at once, as a crash would."""
        if not self.is_running():
            return  # somebody else may have its number
        # Who is killed is no parent any more: what it had just started would not be found.
        for pid in signal_tree(self._process.pid, signal.SIGSTOP):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        """Stops the process and all that descend from it: alive, silent, its connections open."""
        _await_standstill(signal_tree(self._process.pid, signal.SIGSTOP))

    def thaw(self) -> None:
        signal_tree(self._process.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def started_at_a_free_port(
    start: Callable[[int], ServerProcess], is_ready: Callable[[], bool], *, port: int | None = None
) -> ServerProcess:
    """A server that is ready. It is started at another port where somebody took the first one before it did.

    `port`: the one that it is to have, each time. Raises `ServerStartError`.
    """
    for attempt in range(_START_ATTEMPTS):
        chosen = port or free_port()
        process = start(chosen)
        try:
            process.wait_until(is_ready)
        except ServerStartError:
            if attempt == _START_ATTEMPTS - 1:
                raise
            continue
        return process
    raise AssertionError("unreachable")


def signal_tree(root: int, signal_number: int) -> set[int]:
    """Sends a signal to a process and all that descend from it; those that are gone need none. The processes that it
    was sent to.

    Looks again until nobody is new: one that has not been told yet may start another.
    """
    told: set[int] = set()
    while pids := set(process_tree(root)) - told:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        told |= pids
    return told


def freeze(pid: int) -> None:
    """Stops a process, and returns once none of its threads will do anything more. Raises when there is no such one.

    SIGSTOP alone is only under way when `kill` returns: on a busy machine the process goes on for a while, and may
    hear a signal that was sent to it later first.
    """
    os.kill(pid, signal.SIGSTOP)
    _await_standstill([pid])


def _await_standstill(pids: Iterable[int]) -> None:
    deadline_s = time.monotonic() + _STANDSTILL_DEADLINE_S
    for pid in pids:
        while not stands_still(pid):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"process {pid} does not stop: {sorted(_thread_states(pid))}")
            time.sleep(POLL_INTERVAL_S)


def stands_still(pid: int) -> bool:
    """True if a process is stopped with all its threads, or has ended.

    A thread that waits in the kernel where no signal reaches it stops before it is back in its program.
    """
    alive = [state for state in _thread_states(pid) if state not in _ENDED]
    has_heard = len(alive) <= 1 or any(state in _STOPPED for state in alive)
    return has_heard and all(state in _STOPPED or state == _UNINTERRUPTIBLE for state in alive)


def _thread_states(pid: int) -> list[str]:
    """The letters of `/proc/PID/task/*/stat`."""
    try:
        threads = [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [stat.state for thread in threads if (stat := stat_of(thread))]


def processor_seconds(pids: Iterable[int]) -> float:
    """The processor time of the processes that still live so far, in user and kernel mode."""
    ticks = 0
    for pid in pids:
        if stat := stat_of(pid):
            ticks += stat.processor_ticks
    return ticks / os.sysconf("SC_CLK_TCK")


def _die_with_parent() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def free_port(address: str = "127.0.0.1") -> int:
    """A free TCP port that the kernel gives only to who names it, and that nobody else gets here for the time being.

    Of those that the kernel gives to whoever connects, one may be taken as soon as we have looked.
    """
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(_FIRST_PORT, _LAST_PORT + 1) if first_given > _LAST_PORT else (0,)
    while True:
        with socket.socket() as probe:
            try:
                probe.bind((address, _CHANCE.choice(candidates)))
                port = int(probe.getsockname()[1])
                _keep_from_others(port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port


def _keep_from_others(port: int) -> None:
    """OSError when this or another process has just given it out. Such a name goes with its process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim:
        claim.bind(f"\0headrace-test-port-{port}")
        _claims.append(claim.detach())
    if len(_claims) > _MOST_CLAIMS:
        os.close(_claims.popleft())
