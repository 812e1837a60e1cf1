"""The process of an operation: runs the programs of its runner spec on its node, tries again what may be, says how it
ended.

It needs nobody: whoever supervises finds its state in its folder. SIGTERM ends its programs, and then itself.
Its output and that of the programs is the log of the operation.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from headrace.api.times import format_time
from headrace.errors import HeadraceError
from headrace.local.nodes.nsenter import Bind, enter
from headrace.local.operations.runner_spec import ProgramRun, RunnerSpec, RunnerState, read_runner_spec
from headrace.local.processes.private_files import write_private
from headrace.settings.environment import ROLE_MARK, Environment

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_CANNOT_BEGIN = 126
# Never handled, always waited for: a signal that comes just before a wait begins would wake nobody, and one that comes
# between a fork and the note of it would not reach the child.
_AWAITED = {signal.SIGTERM, signal.SIGCHLD}


@dataclass(slots=True)
class _Stage:
    """The programs that run at the same time."""

    running: dict[int, tuple[ProgramRun, int]] = field(default_factory=dict)
    failed: tuple[str, int] | None = None


class JobRunner:
    """One runner spec."""

    def __init__(self, folder: Path, runner_spec: RunnerSpec) -> None:
        self._folder = folder
        self._runner_spec = runner_spec
        self._stage = _Stage()
        self._ends = False

    def run(self) -> int:
        """Runs all stages; the exit code."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        self._say(RunnerState(run=self._runner_spec.run, state="running"))
        for stage in self._runner_spec.stages:
            self._stage = _Stage()
            self._run_stage(stage)
            if self._stage.failed is not None or self._ends:
                break
        message, code = self._stage.failed or ("", 0)
        if self._ends and not message:
            message, code = "it was told to end", 128 + signal.SIGTERM
        ended = format_time(datetime.now(UTC).replace(microsecond=0))
        self._say(
            RunnerState(
                run=self._runner_spec.run, state="ended", exit_code=code, message=message, ended=ended
            )
        )
        return code

    def _run_stage(self, programs: tuple[ProgramRun, ...]) -> None:
        for program in programs:
            self._begin(program, 0)
        while self._stage.running:
            # SIGCHLD of several may come as one.
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                self._take(signal.sigwait(_AWAITED))
                continue
            known = self._stage.running.pop(pid, None)
            self._hear(0)
            if known is not None:
                self._ended(*known, os.waitstatus_to_exitcode(status))

    def _take(self, number: int) -> None:
        if number != signal.SIGTERM:
            return
        self._ends = True
        for pid in self._stage.running:
            # One that has ended just now is not struck off yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _ended(self, program: ProgramRun, failures: int, code: int) -> None:
        if code == 0:
            return
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with {code}"
        if failures < program.restarts and not self._ends:
            pause_s = min(_FIRST_PAUSE_S * 2**failures, _LONGEST_PAUSE_S)
            _tell(f"{program.name} {how}; it is tried again in {pause_s:g} s")
            self._hear(pause_s)
            if not self._ends:
                self._begin(program, failures + 1)
                return
        _tell(f"{program.name} {how}")
        tries = f", the last of {failures + 1} times" if failures else ""
        self._stage.failed = self._stage.failed or (
            f"{program.name} {how}{tries}",
            128 - code if code < 0 else code,
        )

    def _hear(self, wait_s: float) -> None:
        """Takes that it shall end, if it is told so before the time is over."""
        if signal.sigtimedwait({signal.SIGTERM}, wait_s) is not None:
            self._take(signal.SIGTERM)

    def _begin(self, program: ProgramRun, failures: int) -> None:
        sys.stdout.flush()
        # Both ends are closed when the program begins; until then the child may say why it cannot.
        reading, writing = os.pipe()
        pid = -1 if self._ends else os.fork()
        if pid == 0:
            _become(program, writing)
        if pid > 0:
            self._stage.running[pid] = program, failures
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            why = pipe.read().decode(errors="replace")
        if why:
            del self._stage.running[pid]
            os.waitpid(pid, 0)
            _tell(f"{program.name} cannot begin: {why}")
            self._stage.failed = self._stage.failed or (f"{program.name} cannot begin: {why}", _CANNOT_BEGIN)

    def _say(self, state: RunnerState) -> None:
        write_private(self._folder / "state.json", state.to_json())


def _become(program: ProgramRun, complaints: int) -> NoReturn:
    """In the child: is the program from here on, or says why not."""
    what = program.folder
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        enter(None, [Bind(each.source, each.target, each.part, each.read_only) for each in program.places])
        os.chdir(program.folder)
        what = program.command[0]
        _take_identity(program)
        os.execvpe(program.command[0], list(program.command), _marked(program))  # noqa: S606
    except HeadraceError as error:
        os.write(complaints, error.message.encode())
    except OSError as error:
        os.write(complaints, f"{what}: {error.strerror}".encode())
    finally:
        os._exit(_CANNOT_BEGIN)


def _marked(program: ProgramRun) -> dict[str, str]:
    """What it gets, and the tag by which it is found."""
    mark = Environment.current().get(ROLE_MARK)
    return {**program.environment, **({ROLE_MARK: mark} if mark else {})}


def _take_identity(program: ProgramRun) -> None:
    if program.user is None and program.group is None:
        return
    os.setgroups([])
    if program.group is not None:
        os.setgid(program.group)
    if program.user is not None:
        os.setuid(program.user)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _tell(text: str) -> None:
    sys.stdout.write(f"headrace: {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Runs the runner spec of the folder that is the only argument."""
    folder = Path(sys.argv[1])
    path = folder / "errand.json"
    try:
        runner_spec = read_runner_spec(path)
        path.unlink()
        return JobRunner(folder, runner_spec).run()
    except HeadraceError as error:
        _tell(error.message)
        return 1


if __name__ == "__main__":
    sys.exit(main())
