"""The process of an instance: goes apart, runs the program, writes its log, says how it ended. Nothing outlives it.

It needs nobody: whoever supervises finds its state in its folder. SIGTERM ends its programs, and then itself. An
instance without a program of its own serves ranks of MPI (see `rank_launcher`).
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.local.jobs.instance_log import InstanceLog
from headrace.local.jobs.instance_spec import (
    SPEC_FILE,
    STATE_FILE,
    InstanceReport,
    InstanceSpec,
    read_instance_spec,
)
from headrace.local.jobs.rank_launcher import SOCKET_FILE, RankLauncher, RankRequest
from headrace.local.jobs.resource_limits import make_group, remove_group
from headrace.local.jobs.spawn import CANNOT_BEGIN, how_it_ended, spawn
from headrace.local.nodes.nsenter import Bind, enter, mount_memory, name_host
from headrace.local.processes.cgroups import ControlGroup
from headrace.local.processes.private_files import write_private
from headrace.local.processes.process_tags import TaggedProcess, end, family
from headrace.process.stat import started_ticks
from headrace.settings.sizes import format_size

_PR_SET_CHILD_SUBREAPER = 36
_PIECE_BYTES = 1 << 16
_GRACE_S = 5.0
_POLL_S = 0.05
_MEMORY_POLL_S = 0.5
_KILLED = 128 + signal.SIGKILL
_DRAIN_S = 2.0
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the place of POSIX shared memory
_libc = ctypes.CDLL(None, use_errno=True)


class InstanceProcess:
    """One run of one instance."""

    def __init__(self, folder: Path, spec: InstanceSpec) -> None:
        self._folder = folder
        self._spec = spec
        self._book = InstanceLog(Path(spec.log), spec.log_limit_bytes)
        self._selector = selectors.DefaultSelector()
        self._output = -1
        self._program = 0
        self._code: int | None = None
        self._is_told = False
        self._guests: dict[int, RankRequest] = {}
        self._reception: RankLauncher | None = None
        self._group: ControlGroup | None = None
        self._is_out_of_memory = False

    def run(self) -> int:
        """Runs it to its end; the exit code."""
        wake = self._listen_to_signals()
        # What a program leaves behind comes to us, not to the machine.
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._group = make_group(self._folder, self._spec)
            self._go_apart()
            self._begin()
        except (HeadraceError, OSError) as error:
            what = error.message if isinstance(error, HeadraceError) else str(error)
            return self._ended(CANNOT_BEGIN, f"cannot begin: {what}")
        self._serve(wake)
        self._end_family(_GRACE_S if self._is_told else 0.0)
        self._drain()
        code = self._code if self._code is not None else 0
        self._look_at_memory()
        self._is_out_of_memory = self._is_out_of_memory and bool(code or not self._program)
        if self._is_out_of_memory:
            return self._ended(code or _KILLED, _over_memory(self._spec))
        return self._ended(code, how_it_ended(code) if code else "")

    def _go_apart(self) -> None:
        """Takes mounts and a host name of its own."""
        if not self._spec.is_apart:
            return
        name_host(self._spec.name)
        enter(None, [Bind(each.source, each.target, each.part, each.read_only) for each in self._spec.places])
        if self._spec.shared_memory_bytes is not None:
            mount_memory(_SHARED_MEMORY, self._spec.shared_memory_bytes)

    def _begin(self) -> None:
        if self._spec.command:
            reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            os.set_blocking(writing, True)
            try:
                self._program = spawn(
                    self._spec.command,
                    folder=self._spec.folder,
                    environment=self._spec.environment,
                    descriptors=(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), writing, writing),
                    group=self._group,
                )
            finally:
                os.close(writing)
            self._output = reading
            self._selector.register(reading, selectors.EVENT_READ, "output")
        else:
            self._reception = RankLauncher(self._folder / SOCKET_FILE, self._spec.token)
            self._selector.register(self._reception, selectors.EVENT_READ, "guest")
        self._say("up", pid=self._program)

    def _serve(self, wake: socket.socket) -> None:
        self._selector.register(wake, selectors.EVENT_READ, "signal")
        while not self._is_told and self._code is None:
            for key, _ in self._selector.select(_MEMORY_POLL_S if self._group else None):
                if key.data == "output":
                    self._copy_output()
                elif key.data == "guest":
                    self._receive()
                else:
                    wake.recv(_PIECE_BYTES)
            self._reap()
            if self._look_at_memory() and self._code is None:
                # As the kernel itself does it to a container: one that is killed for memory takes all with it.
                self._code = _KILLED

    def _look_at_memory(self) -> bool:
        """Whether the kernel has killed something of it for memory."""
        if self._group is not None and not self._is_out_of_memory:
            self._is_out_of_memory = self._group.kills() > 0
        return self._is_out_of_memory

    def _receive(self) -> None:
        """Starts what another process of the job asks for."""
        guest = self._reception.receive() if self._reception else None
        if guest is None:
            return
        try:
            pid = spawn(
                ("sh", "-c", guest.line),
                folder=self._spec.folder,
                environment=self._spec.environment,
                descriptors=guest.descriptors,
                group=self._group,
            )
        except OSError as error:
            self._book.say(f"ranks cannot be started: {error.strerror}")
            guest.answer(CANNOT_BEGIN)
            return
        guest.close_descriptors()
        self._guests[pid] = guest

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code
            if pid == self._program:
                self._code = code
            elif guest := self._guests.pop(pid, None):
                guest.answer(code)

    def _copy_output(self) -> bool:
        """Takes some of what the program has written; false when there is nothing for now, or never more."""
        try:
            data = os.read(self._output, _PIECE_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._book.write(data)
            return True
        self._selector.unregister(self._output)
        os.close(self._output)
        self._output = -1
        return False

    def _drain(self) -> None:
        """What was written before the end. Who still holds the other end is none of ours."""
        deadline = time.monotonic() + _DRAIN_S
        while self._output >= 0 and time.monotonic() < deadline:
            if not self._copy_output():
                break

    def _end_family(self, grace_s: float) -> None:
        """Ends all that was started here, asking first if there is time for it."""
        deadline = time.monotonic() + grace_s
        if grace_s:
            end(self._family(), signal.SIGTERM)
        while True:
            self._reap()
            if not (left := self._family()):
                # Who has ended since the last pass is no family any more, and still has a code.
                self._reap()
                return
            if time.monotonic() >= deadline:
                end(left, signal.SIGKILL)
            if self._output >= 0:
                self._copy_output()
            time.sleep(_POLL_S)

    def _family(self) -> list[TaggedProcess]:
        mine = os.getpid()
        found = family(mine, started_ticks(mine) or 0, "")
        return [each for each in found if each.pid != mine and each.started_ticks]

    def _ended(self, code: int, message: str) -> int:
        if message:
            self._book.say(message)
        self._book.close()
        remove_group(self._folder)
        self._say("ended", exit_code=code, message=message, is_out_of_memory=self._is_out_of_memory)
        return code

    def _say(self, state: str, **values: object) -> None:
        say(self._folder, self._spec.run, state, **values)

    def _listen_to_signals(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)

        def told(*_: object) -> None:
            self._is_told = True

        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return ours


def _over_memory(spec: InstanceSpec) -> str:
    return f"went over its memory limit of {format_size(spec.memory_bytes or 0)} and was killed (OOMKilled)"


def say(folder: Path, run: str, state: str, **values: object) -> None:
    """Writes down how an instance stands, as a whole or not at all."""
    now = datetime.now(UTC).isoformat()
    report = InstanceReport.model_validate({"run": run, "state": state, "at": now, **values})
    write_private(folder / STATE_FILE, report.to_json())


def main() -> int:
    """Runs the instance of the folder that is the only argument."""
    folder = Path(sys.argv[1])
    try:
        spec = read_instance_spec(folder / SPEC_FILE)
        say(folder, spec.run, "begun")
        (folder / SPEC_FILE).unlink()
        return InstanceProcess(folder, spec).run()
    except HeadraceError as error:
        sys.stderr.write(f"headrace: {error.message}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
