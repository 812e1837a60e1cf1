"""Listing a bucket, and coming back to a listing made before."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from benchmarks import rows
from benchmarks.contenders import CacheSpace, Contender, Kind, Source
from benchmarks.contenders.headrace import Headrace
from benchmarks.contenders.peers import Peer, list_with_rclone
from benchmarks.data import SMALL, entry_name, wide_name
from benchmarks.listing_server import running_listing_server
from benchmarks.native import LoopError
from benchmarks.samples import Row
from benchmarks.session import Session
from benchmarks.suites.directories import BUCKET
from benchmarks.workloads import sdk
from benchmarks.workloads.cold import list_objects_per_s

REFERENCE = "plain-client"
LABEL = "listing"


def run(session: Session) -> None:
    """The bucket of small files on the real server, then the widest directory on the listing server."""
    entries = max(session.scale.directories)
    for _ in range(session.scale.repetitions):
        session.say("listing the bucket of small files")
        _list(session, rows.LIST_BUCKET, session.source(SMALL), session.scale.small_files)
    with running_listing_server({wide_name(entries): entries}, session.work) as endpoint:
        source = Source(endpoint, BUCKET, wide_name(entries))
        for _ in range(session.scale.repetitions):
            session.say(f"listing {entries:,} objects")
            count, rate = list_objects_per_s(endpoint, BUCKET, f"{wide_name(entries)}/")
            assert count == entries, f"the listing server told {count} of {entries} objects"
            session.samples.add(rows.LIST_WIDE, REFERENCE, rate)
            _list(session, rows.LIST_WIDE, source, entries)
        _come_back(session, source, entries)


def _list(session: Session, row: Row, source: Source, entries: int) -> None:
    for contender in session.contenders:
        with session.attempt(contender, row):
            if contender.kind is Kind.HEADRACE:
                session.samples.add(row, contender.name, entries / _mount_seconds(session, contender, source))
            elif isinstance(contender, Peer) and contender.name.startswith("rclone"):
                seconds = list_with_rclone(
                    contender, source, entries, limit_s=session.scale.listing_limit_s * 2
                )
                session.samples.add(row, contender.name, entries / seconds)


def _mount_seconds(
    session: Session, contender: Contender, source: Source, *, keep_cache: bool = False
) -> float:
    """A first mount lists the bucket; the time of the whole command counts."""
    start = time.perf_counter()
    with session.mounted(contender, source, LABEL, keep_cache=keep_cache):
        return time.perf_counter() - start


def _come_back(session: Session, source: Source, entries: int) -> None:
    """Mounts again with the state of the first mount, and opens the snapshot again in a process of its own."""
    rows_here = (rows.MOUNT_AGAIN, rows.MOUNT_BEHIND, rows.MAP_AGAIN, rows.snapshot_per_file(entries))
    for contender in session.contenders:
        if not isinstance(contender, Headrace):
            continue
        with session.attempt(contender, *rows_here):
            _mount_seconds(session, contender, source, keep_cache=True)
            for _ in range(session.scale.repetitions):
                again = _mount_seconds(session, contender, source, keep_cache=True)
                session.samples.add(rows.MOUNT_AGAIN, contender.name, again)
                behind = replace(contender, snapshot="revalidate")
                again = _mount_seconds(session, behind, source, keep_cache=True)
                session.samples.add(rows.MOUNT_BEHIND, contender.name, again)
            _open_again(session, contender, source, entries)
        session.forget_cache(contender, LABEL)


def _open_again(session: Session, contender: Contender, source: Source, entries: int) -> None:
    cache = CacheSpace(session.work / "caches" / "open-again", 1 << 30)
    cache.folder.mkdir(parents=True, exist_ok=True)
    wanted = sdk.orders(source, cache, paths=(), file_bytes=0, seconds=0)
    for _ in range(session.scale.repetitions):
        figures = sdk.measure(wanted, source, repetitions=1, limit_s=session.scale.listing_limit_s * 4)
        if figures.files != entries:
            raise LoopError(f"the snapshot holds {figures.files} of {entries} files")
        session.samples.add(rows.MAP_AGAIN, contender.name, figures.open_again_s)
    # The snapshot is by far the largest file of the state: the rest are locks and sockets.
    size = max(file.stat().st_size for file in Path(wanted.state_directory).rglob("*") if file.is_file())
    names = entries * len(entry_name(0))
    session.samples.add(rows.snapshot_per_file(entries), contender.name, (size - names) / entries)
