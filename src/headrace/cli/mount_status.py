"""The lines of `headrace status` about the mounts of this machine.

It runs without a reader of options where it has none, and loads no more than it needs: programs ask it all the time.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli import printer
from headrace.cli.left_here import UNUSED_S, left_here
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.errors import BusyError, HeadraceError
from headrace.exits import exit_code
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle.backend_lock import is_owned
from headrace.settings.environment import Environment
from headrace.settings.sizes import format_size

if TYPE_CHECKING:
    from headrace.engine.status import EngineReport, ProofReport, ReadReport, SnapshotReport, WritingReport

_ALONE = (
    "nobody looks after it: workers and masters that die stay dead, and reads may wait for them; "
    "the supervisor of a mount starts it again within half a minute, `headrace up` at once"
)


def show(target: str | None = None, *, json: bool = False) -> int:
    """Shows the mount at `target`, or all; the exit code. Raises `MissingFileError` when nothing is mounted there."""
    registry = Registry(Environment.current().runtime_directory)
    entries = [registry.get(target)] if target else registry.entries()
    reports = [(entry, _report(entry)) for entry in entries]
    if json:
        printer.as_json([_as_json(entry, report) for entry, report in reports])
    else:
        _print(reports, alone=target is not None)
    failed = [report for _, report in reports if isinstance(report, HeadraceError)]
    return int(exit_code(failed[0])) if failed else 0


def _report(entry: Entry) -> EngineReport | HeadraceError:
    if entry.is_restarting:
        return BusyError.of(
            f"the process of {entry.mountpoint} has ended and the next one starts; programs wait for it meanwhile",
            hint="ask again in a moment; if it stays so, see the log",
        )
    # Here, since a machine without mounts needs none: it brings the models of all reports and settings along.
    from headrace.engine.handles import Engine  # noqa: PLC0415

    try:
        with Engine.attach(Path(entry.state_directory)) as engine:
            return engine.status()
    except HeadraceError as error:
        return error


def _as_json(entry: Entry, report: EngineReport | HeadraceError) -> dict[str, Any]:
    told = entry.as_dict()
    mount = {name: told[name] for name in told if name not in ("started_ticks", "supervisor_ticks")}
    if isinstance(report, HeadraceError):
        return {**mount, "error": {"kind": report.kind, "message": report.message}}
    shares = {"cached_share": report.cached_share, "hit_ratio": report.reads.hit_ratio}
    return {**mount, "engine": {**report.model_dump(mode="json"), **shares}}


def _print(reports: list[tuple[Entry, EngineReport | HeadraceError]], *, alone: bool) -> None:
    """The mounts; the local backend before them unless one mount was asked for."""
    if not alone and _shows_backend() and reports:
        printer.data("")
    if not reports:
        printer.say("nothing is mounted")
    for number, (entry, report) in enumerate(reports):
        if number:
            printer.data("")
        printer.data(f"{entry.mountpoint}  ({entry.name})")
        printer.table(rows(entry, report))
    if not alone:
        _tell_of_left()


def _tell_of_left() -> None:
    if left := left_here(Environment.current(), unused_for_s=UNUSED_S):
        printer.say(f"states that mounts left a week ago or longer: {len(left)}; headrace prune")


def _shows_backend() -> bool:
    if not is_owned(BackendLayout.of(Environment.current())):
        return False
    from headrace.cli import backend_status  # noqa: PLC0415

    return backend_status.show_if_up()


def rows(entry: Entry, report: EngineReport | HeadraceError) -> Iterator[tuple[str, str]]:
    """The lines of one mount."""
    for origin in entry.origins:
        yield "origin", origin
    yield "process", f"{entry.pid}, {entry.mode}, since {_time(entry.started_at_s)}"
    if entry.supervisor_pid is None:
        yield "supervisor", "none: a crash of the process would end this mount"
    if entry.restarts:
        yield "restarts", f"{entry.restarts}; the last process {entry.last_restart}"
    yield from _backend(entry)
    if isinstance(report, HeadraceError):
        yield "error", report.message
        return
    yield from (("listing", origin.notice) for origin in report.origins if origin.notice)
    snapshot = report.snapshot
    taken = f", taken {_time(snapshot.taken_at_s)}" if snapshot.taken_at_s else ""
    yield (
        "snapshot",
        f"version {snapshot.version}: {snapshot.files:,} files, {format_size(snapshot.bytes)}{taken}",
    )
    if snapshot.refresh_error:
        yield "refresh", f"failed: {snapshot.refresh_error}"
    yield "cached", f"{format_size(report.cached_bytes)} ({_percent(report.cached_share)})"
    if report.cached_bytes:
        yield "proven", _proven(report.proofs)
    for number, level in enumerate(report.levels):
        used = f"{format_size(level.used_bytes)} of {format_size(level.quota_bytes)}"
        yield f"level {number}", f"{level.medium.value} {used}  {', '.join(level.folders)}".rstrip()
        if level.trouble:
            yield "", f"takes nothing new at present ({level.trouble}); it is tried again"
    yield "hits", _hits(report.reads)
    if report.writing is not None:
        yield from _writing(report.writing)
    yield from _faults(report)
    yield from _left_out(snapshot)
    if entry.metrics_address:
        yield "metrics", f"http://{entry.metrics_address}/metrics"
    if entry.log_file:
        yield "log", entry.log_file


def _writing(writing: WritingReport) -> Iterator[tuple[str, str]]:
    """What programs wrote, and each name that the origin does not hold as they did."""
    staged = f"{writing.staged_files:,} files, {format_size(writing.staged_bytes)} in {writing.folder}"
    yield "written", f"{staged}; {writing.open_files:,} open"
    for file in writing.unpublished:
        why = "was open when its mount ended" if file.was_open else file.error or "being put into the origin"
        yield "unsynced", f"{printer.visible(os.fsencode(file.path))}: {why}; its content: {file.file}"
    for path in writing.undeleted:
        yield "unsynced", f"{printer.visible(os.fsencode(path))}: gone here, and still in the origin"
    if writing.unpublished or writing.undeleted:
        yield "", "headrace sync tries again"


def _left_out(snapshot: SnapshotReport) -> Iterator[tuple[str, str]]:
    """What the origin has and the dataset has not: since nobody wants it, and since it cannot be shown."""
    # Loaded already, by the report; a machine without mounts does without it.
    from headrace.engine.status import EXCLUDED  # noqa: PLC0415

    if any(each.patterns for each in snapshot.exclude):
        yield "excluded", _excluded(snapshot, EXCLUDED)
    if snapshot.rejected_keys:
        by_rule = [(rule, count) for rule, count in snapshot.rejected_by_rule if rule != EXCLUDED]
        rules = ", ".join(f"{rule} {count:,}" for rule, count in by_rule)
        yield "rejected", f"{snapshot.rejected_keys:,} keys{f': {rules}' if rules else ''}"
        for key in (each for each in snapshot.rejected if each.reason != EXCLUDED):
            yield "", f"{printer.visible(key.key.encode('utf-8', 'surrogateescape'))}  ({key.reason})"


def _backend(entry: Entry) -> Iterator[tuple[str, str]]:
    """A word of the local backend that the mount belongs to, where nobody looks after it."""
    layout = BackendLayout.of(Environment.current())
    if layout.nodes in Path(entry.mountpoint).parents and not is_owned(layout):
        yield "backend", _ALONE


def _excluded(snapshot: SnapshotReport, rule: str) -> str:
    """How many names were not wanted, and by which patterns."""
    count = dict(snapshot.rejected_by_rule).get(rule, 0)
    patterns = dict.fromkeys(pattern for each in snapshot.exclude for pattern in each.patterns)
    shown = ", ".join(printer.visible(pattern.encode()) for pattern in patterns)
    return f"{count:,} names, by {shown}"


def _hits(reads: ReadReport) -> str:
    """How much of what programs read the origin did not send for it."""
    read, passed = format_size(reads.read_bytes), reads.passthrough_estimated_bytes
    about, kernel = (
        ("about ", f", {format_size(passed)} by the kernel itself (estimated)") if passed else ("", "")
    )
    if reads.through_workers:
        others = f"{format_size(reads.cluster_bytes)} from other machines"
        return f"told by the cluster (headrace status --cluster); {about}{read} read{kernel}; {others}"
    origin = format_size(reads.origin_bytes)
    warmed = f", {format_size(reads.loaded_bytes)} of it to warm up" if reads.loaded_bytes else ""
    return f"{_percent(reads.hit_ratio)} of {about}{read} read{kernel}; {origin} from the origin{warmed}"


def _faults(report: EngineReport) -> Iterator[tuple[str, str]]:
    """Bytes that were not what they should be."""
    if report.proofs.mismatches:
        yield (
            "mismatch",
            f"origin sends other bytes than its checksums say: {report.proofs.mismatches:,} times, not kept",
        )
        for file in report.proofs.mismatched:
            yield "", f"{printer.visible(file.path.encode('utf-8', 'surrogateescape'))}  ({file.checksum})"
        yield "", "if it is the checksums that are wrong: --option ignore-checksums=true"
    if report.corrupt_blocks:
        yield "corrupt", f"{report.corrupt_blocks:,} blocks dropped and fetched again"


def _proven(proofs: ProofReport) -> str:
    """How much of the cache was compared with the origin's checksums."""
    shares = (
        (proofs.proven_bytes, "as the origin's checksums say"),
        (proofs.unsummed_bytes, "without a checksum at the origin"),
        (proofs.uncompared_bytes, "not compared yet (headrace verify)"),
        (proofs.partial_bytes, "of files not here as a whole"),
    )
    return ", ".join(f"{format_size(size)} {what}" for size, what in shares if size) or "nothing"


def _percent(share: float | None) -> str:
    # Rounded down, so that 100.0% means all.
    return "-" if share is None else f"{math.floor(share * 1000) / 10:.1f}%"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
