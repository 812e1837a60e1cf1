"""Waiting for the end of jobs, and what is answered then."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import typer

from headrace.cli import printer
from headrace.errors import HeadraceError, OriginUnreachableError
from headrace.exits import ExitCode, complaint, exit_code
from headrace.jobs import job_choice
from headrace.jobs.backend import JobBackend
from headrace.jobs.spec import JobKind
from headrace.jobs.views import JobView

TIMED_OUT = 124
"""As `timeout` of coreutils."""

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0


def wait_for_end(
    backend: JobBackend,
    namespace: str,
    names: Sequence[str],
    kind: JobKind | None,
    timeout_s: float | None,
) -> None:
    """Returns when all have succeeded.

    Ends the command with 1 when one failed, 124 when the time is over, and the code of `exits` for what kept it from
    knowing: so 1 says that a job failed, and nothing else.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    failed = False
    for name in names:
        try:
            job = _end_of(backend, namespace, name, kind, deadline)
        except HeadraceError as error:
            printer.say(complaint(error))
            raise typer.Exit(int(exit_code(error))) from None
        except KeyboardInterrupt:
            printer.say(f"interrupted: job {name} goes on; arena wait {name} waits for it again")
            raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
        if job is None:
            printer.say(f"error: timed out waiting for the end of job {name}")
            printer.say(f"hint: it goes on; arena get {name} -e says how it is")
            raise typer.Exit(TIMED_OUT)
        failed = failed or job_choice.exit_code(job) != 0
    if failed:
        raise typer.Exit(1)


def _end_of(
    backend: JobBackend, namespace: str, name: str, kind: JobKind | None, deadline: float | None
) -> JobView | None:
    """The job at its end; None at the deadline (monotonic seconds)."""
    told, pause_s = "", _FIRST_PAUSE_S
    while True:
        try:
            job = backend.get(namespace, name, kind)
            backend.tend(job)
            told = _tell(job, told)
            if job.phase.has_ended:
                return job
        except OriginUnreachableError as error:
            # A backend that is started anew is no reason to give a job up.
            if told != str(error):
                printer.warn(f"{error}; trying again")
            told = str(error)
        left_s = math.inf if deadline is None else deadline - time.monotonic()
        if left_s <= 0:
            return None
        time.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * 1.2, _LONGEST_PAUSE_S)


def _tell(job: JobView, told: str) -> str:
    """Says how it is, if that is new."""
    line = f"{job.name}: {job.phase.value}{f': {job.reason}' if job.reason else ''}"
    if line != told:
        printer.say(line)
    return line
