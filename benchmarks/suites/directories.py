"""ls, ls -l and walk of very wide directories, and the memory that their names cost.

The bucket comes from our own listing server, for every contender: a folder-backed server would be what is measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import rows
from benchmarks.contenders import Contender, Kind, Mounted, Source
from benchmarks.data import make_wide_directory, wide_name
from benchmarks.listing_server import running_listing_server
from benchmarks.machine import drop_caches, memory_of
from benchmarks.native import LoopError
from benchmarks.samples import Row
from benchmarks.session import Session
from benchmarks.workloads.names import list_seconds, long_list_seconds, walk_seconds

BUCKET = "wide"
# A contender that used more than this share of the time limit is not tried with ten times the entries.
HOPELESS_SHARE = 0.25
PATIENCE = 5


def run(session: Session) -> None:
    """Every directory size, the smaller first."""
    sizes = session.scale.directories
    with running_listing_server({wide_name(entries): entries for entries in sizes}, session.work) as endpoint:
        slow: dict[str, str] = {}
        for entries in sizes:
            if reason := _make_local_directory(session, entries):
                slow |= dict.fromkeys(session.names(Kind.LOCAL), reason)
            _one_size(session, endpoint, entries, slow)


def _make_local_directory(session: Session, entries: int) -> str | None:
    """The plain directory; why there is none, when the disk is too slow to make it in time."""
    session.say(f"making a local directory of {entries:,} files")
    try:
        make_wide_directory(session.work / "local" / BUCKET / wide_name(entries), entries, session.loop)
    except LoopError as error:
        return str(error)
    return None


def _rows(entries: int) -> Sequence[Row]:
    makers = (
        *(rows.fresh_names_of, rows.names_of, rows.names_again, rows.long_names_of, rows.long_names_again),
        *(rows.walk_of, rows.resident_per_file, rows.heap_per_file),
    )
    return [make(entries) for make in makers]


def _one_size(session: Session, endpoint: str, entries: int, slow: dict[str, str]) -> None:
    for contender in session.contenders:
        if contender.name in slow:
            for row in _rows(entries):
                session.samples.leave_out(row, contender.name, f"not tried: {slow[contender.name]}")
    able = [contender for contender in session.contenders if contender.name not in slow]
    with contextlib.ExitStack() as mounts:
        source = Source(endpoint, BUCKET, wide_name(entries))
        trees = [
            (one, tree)
            for one in able
            if (tree := _mount(session, mounts, one, source, entries=entries, slow=slow))
        ]
        for repetition, (contender, tree) in session.repeated(trees):
            if not session.samples.gave_up(rows.long_names_of(entries), contender.name):
                session.say(
                    f"{entries:,} names {repetition + 1}/{session.scale.repetitions}: {contender.name}"
                )
                _measure(session, contender, tree.directory, entries)
        for contender, tree in trees:
            _memory(session, contender, tree, entries)


def _mount(
    session: Session,
    mounts: contextlib.ExitStack,
    contender: Contender,
    source: Source,
    *,
    entries: int,
    slow: dict[str, str],
) -> Mounted | None:
    """Mounts and lists for the first time; who is hopelessly slow is remembered for the next size."""
    limit_s = _limit_s(session, contender)
    start = time.perf_counter()
    with session.attempt(contender, *_rows(entries)):
        tree = mounts.enter_context(session.mounted(contender, source, f"wide-{entries}"))
        list_seconds(tree.directory, entries=entries, limit_s=limit_s)
        elapsed = time.perf_counter() - start
        session.samples.add(rows.fresh_names_of(entries), contender.name, elapsed)
        if elapsed > limit_s * HOPELESS_SHARE and contender.kind is Kind.PEER:
            slow[contender.name] = f"{entries:,} names took {elapsed:.1f} s"
        return tree
    slow[contender.name] = f"{entries:,} names failed or took too long"
    return None


def _measure(session: Session, contender: Contender, directory: Path, entries: int) -> None:
    limit_s = _limit_s(session, contender)
    steps = (
        (rows.names_of(entries), list_seconds, True),
        (rows.names_again(entries), list_seconds, False),
        (rows.long_names_of(entries), long_list_seconds, True),
        (rows.long_names_again(entries), long_list_seconds, False),
        (rows.walk_of(entries), walk_seconds, False),
    )
    for row, measure, cold in steps:
        if session.samples.gave_up(row, contender.name) or (cold and not drop_caches()):
            continue
        with session.attempt(contender, row):
            session.samples.add(row, contender.name, measure(directory, entries=entries, limit_s=limit_s))


def _limit_s(session: Session, contender: Contender) -> float:
    """Peers are given up soon, to save the run's time; the two sides of the promises are measured to their end."""
    return session.scale.listing_limit_s * (1 if contender.kind is Kind.PEER else PATIENCE)


def _memory(session: Session, contender: Contender, tree: Mounted, entries: int) -> None:
    """After every name was looked up; a contender that gave up in ls -l has not looked them all up."""
    pids = tree.processes()
    if not pids or session.samples.gave_up(rows.long_names_of(entries), contender.name):
        return
    memory = memory_of(pids)
    session.samples.add(rows.resident_per_file(entries), contender.name, memory.resident / entries)
    session.samples.add(rows.heap_per_file(entries), contender.name, memory.anonymous / entries)
