"""Follows a load at its master: a line every few seconds, or one that is written anew on a terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from headrace.cli import printer
from headrace.cli.progress import duration
from headrace.control.messages import LoadAction, LoadReport, LoadState, shown_path
from headrace.errors import DeadlineError, HeadraceError, OriginUnreachableError
from headrace.settings.sizes import format_size

if TYPE_CHECKING:
    from headrace.control.client import ControlClient

_POLL_EVERY_S = 0.5
_LINE_EVERY_S = 5.0
_MOST_ERRORS = 10
_PATIENCE_S = 300.0


async def follow(client: ControlClient, report: LoadReport) -> LoadReport:
    """The last report, when the load has ended. A master that is away for a while is waited for: it goes on with it."""
    loop = asyncio.get_running_loop()
    begun_s, told_s, heard_s = loop.time(), loop.time(), loop.time()
    while not report.state.ended:
        await asyncio.sleep(_POLL_EVERY_S)
        try:
            report = await client.load(report.id)
            heard_s = loop.time()
        except (OriginUnreachableError, DeadlineError) as error:
            _be_patient(error, loop.time() - heard_s)
        every_s = _POLL_EVERY_S if sys.stderr.isatty() else _LINE_EVERY_S
        if loop.time() - told_s >= every_s and not report.state.ended:
            told_s = loop.time()
            _show(line(report, told_s - begun_s))
    if sys.stderr.isatty():
        _show("")
    return report


def line(report: LoadReport, elapsed_s: float) -> str:
    """`load: 1.00GiB of 4.00GiB (25.0%), 3 of 9 files, 102.40MiB/s, 30s left`."""
    if report.state is LoadState.WAITING:
        return "load: waiting"
    share = report.done_bytes / report.total_bytes if report.total_bytes else 0.0
    rate = report.done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    left = report.total_bytes - report.done_bytes
    text = (
        f"load: {format_size(report.done_bytes)} of {format_size(report.total_bytes)} ({share:.1%}), "
        f"{report.done_files:,} of {report.total_files:,} files, {format_size(int(rate))}/s"
    )
    return f"{text}, {duration(left / rate)} left" if rate > 0 and left > 0 else text


def tell(report: LoadReport, *, json: bool) -> None:
    """Prints how it ended, in words; as JSON, too, when that is wanted."""
    if json:
        printer.as_json({**report.model_dump(mode="json"), "complete": report.complete})
    for error in report.errors[:_MOST_ERRORS]:
        # A fault that the engine tells as one sentence names its file itself.
        where = f"{shown_path(error.path)}: " if error.path else ""
        printer.say(f"error: {where}{error.message}")
    if len(report.errors) > _MOST_ERRORS:
        printer.say(f"error: and {len(report.errors) - _MOST_ERRORS} more")
    word = {LoadAction.LOAD: "load", LoadAction.EVICT: "evict", LoadAction.UNPIN: "unpin"}[
        report.order.action
    ]
    done = f"{report.done_files:,} files, {format_size(report.done_bytes)}"
    if report.complete:
        origin = f" ({format_size(report.origin_bytes)} from the origin)" if word == "load" else ""
        printer.say(f"{word}: complete: {done}{origin}" if word != "unpin" else "unpin: complete")
        if found := report.message.partition("; ")[2]:
            printer.say(f"{word}: {found}")
        return
    end = report.message or report.state.value
    printer.say(
        f"{word}: incomplete: {done} of {report.total_files:,} files, {format_size(report.total_bytes)}; {end}"
    )


def _be_patient(error: HeadraceError, silent_s: float) -> None:
    if silent_s > _PATIENCE_S:
        raise error


def _show(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()
    else:
        printer.say(text)
