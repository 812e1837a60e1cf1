"""Follows a warm-up or verification: a bar on a terminal, a line every few seconds elsewhere. Ctrl-C cancels it."""

from __future__ import annotations

import sys
import time

from headrace.cli import printer
from headrace.engine.handles import Job
from headrace.engine.status import JobReport
from headrace.settings.sizes import format_size

_LINE_EVERY_S = 5.0
_BAR_EVERY_S = 0.1
_CANCEL_S = 10.0


def follow(job: Job, verb: str) -> JobReport:
    """The last report, when the job has ended. On Ctrl-C the job is cancelled first."""
    try:
        if sys.stderr.isatty():
            _follow_with_bar(job, verb)
        else:
            _follow_with_lines(job, verb)
    except KeyboardInterrupt:
        job.cancel()
        job.wait(_CANCEL_S)
        printer.say(f"{verb}: cancelled; what is done stays done, the same command goes on from there")
        raise
    return job.progress()


def line(report: JobReport, elapsed_s: float, verb: str) -> str:
    """`warm: 1.00GiB of 4.00GiB (25.0%), 3 of 9 files, 102.40MiB/s, 30s left`."""
    share = report.done_bytes / report.total_bytes if report.total_bytes else 1.0
    rate = report.done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    text = (
        f"{verb}: {format_size(report.done_bytes)} of {format_size(report.total_bytes)} ({share:.1%}), "
        f"{report.done_files:,} of {report.total_files:,} files, {format_size(int(rate))}/s"
    )
    if rate > 0 and report.done_bytes < report.total_bytes:
        text += f", {duration((report.total_bytes - report.done_bytes) / rate)} left"
    return text


def duration(seconds: float) -> str:
    """`41s`, `5m12s`, `2h05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def _follow_with_lines(job: Job, verb: str) -> None:
    begun = told = time.monotonic()
    # In short waits: Ctrl-C is heard between two of them.
    while not job.wait(_BAR_EVERY_S):
        if time.monotonic() - told >= _LINE_EVERY_S:
            told = time.monotonic()
            printer.say(line(job.progress(), told - begun, verb))


def _follow_with_bar(job: Job, verb: str) -> None:
    # Here, since scripts have no need of a bar.
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TextColumn("{task.fields[files]} files"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=printer.talk(), transient=True) as progress:
        task = progress.add_task(verb, total=None, files="")
        ended = False
        while not ended:
            ended = job.wait(_BAR_EVERY_S)
            report = job.progress()
            files = f"{report.done_files:,}/{report.total_files:,}"
            progress.update(task, completed=report.done_bytes, total=report.total_bytes or None, files=files)
