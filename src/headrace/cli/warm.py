"""`headrace warm` and `headrace verify`: a job is followed to its end, and its end is told truthfully."""

from __future__ import annotations

import time

import typer

from headrace.cli import options, printer
from headrace.cli.dataset_words import settings_of
from headrace.cli.progress import duration, follow
from headrace.cli.targets import reach
from headrace.engine.handles import Job
from headrace.engine.status import JobError, JobReport
from headrace.exits import ExitCode
from headrace.settings.environment import Environment
from headrace.settings.sizes import format_size

_MOST_ERRORS = 10


def run(
    target: options.Target,
    path: options.Paths = None,
    cache: options.Cache = None,
    option: options.Option = None,
    exclude: options.Exclude = None,
    secret_file: options.SecretFile = None,
    block_size: options.BlockSize = None,
    json: options.Json = False,
) -> None:
    """Bring data into the cache before it is asked for; complete means that every byte is in."""
    environment = Environment.current()
    settings = settings_of(
        environment,
        option=option,
        exclude=exclude,
        cache=cache,
        secret_file=secret_file,
        block_size=block_size,
    )
    reached = reach(target, settings, environment)
    with reached.engine as engine:
        _finish(engine.warm(reached.paths(path)), "warm", json=json)


def verify(
    target: options.Target,
    path: options.Paths = None,
    cache: options.Cache = None,
    option: options.Option = None,
    exclude: options.Exclude = None,
    secret_file: options.SecretFile = None,
    block_size: options.BlockSize = None,
    json: options.Json = False,
) -> None:
    """Compare what the cache holds with its checksums; what does not match is dropped."""
    environment = Environment.current()
    settings = settings_of(
        environment,
        option=option,
        exclude=exclude,
        cache=cache,
        secret_file=secret_file,
        block_size=block_size,
    )
    reached = reach(target, settings, environment)
    with reached.engine as engine:
        _finish(engine.verify(reached.paths(path)), "verify", json=json)


def _finish(job: Job, verb: str, *, json: bool) -> None:
    """Follows the job; ends the command with `INCOMPLETE` unless every byte is accounted for."""
    begun = time.monotonic()
    report = follow(job, verb)
    elapsed_s = time.monotonic() - begun
    if json:
        answer = report.model_dump(mode="json")
        printer.as_json({**answer, "complete": report.complete, "elapsed_s": round(elapsed_s, 3)})
    _tell(report, verb, elapsed_s)
    if not report.complete:
        raise typer.Exit(int(ExitCode.INCOMPLETE))


def _tell(report: JobReport, verb: str, elapsed_s: float) -> None:
    for error in report.errors[:_MOST_ERRORS]:
        printer.say(
            f"error: {error.path}: {error.message}" if isinstance(error, JobError) else f"error: {error}"
        )
    if len(report.errors) > _MOST_ERRORS:
        printer.say(f"error: and {len(report.errors) - _MOST_ERRORS} more")
    done = f"{report.done_files:,} files, {format_size(report.done_bytes)} in {duration(elapsed_s)}"
    if report.complete:
        origin = f" ({format_size(report.origin_bytes)} from the origin)" if verb == "warm" else ""
        printer.say(f"{verb}: complete: {done}{origin}")
    else:
        printer.say(
            f"{verb}: incomplete: {done} of {report.total_files:,} files, {format_size(report.total_bytes)}; "
            f"{report.message or report.state}"
        )
