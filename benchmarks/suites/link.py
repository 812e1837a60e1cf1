"""Cold reads over a limited link: how much of it one reader fills, how much four, and how soon the first byte comes."""

from __future__ import annotations

import functools
from pathlib import Path

from benchmarks import rows
from benchmarks.contenders import Contender, Kind
from benchmarks.data import BUCKET, large_name, large_paths, small_name
from benchmarks.session import Session
from benchmarks.settings import Scale
from benchmarks.workloads import cold
from headrace.testing.network import NamespaceLink, ProxyLink, storage_link
from headrace.testing.s3_server import S3Server

READERS = 4
ROWS = (rows.LINK_ONE, rows.LINK_MANY, rows.LINK_BYTES, rows.FIRST_BYTE, rows.FIRST_BYTE_RAW)
FIRST_BYTE_FOLDER = "small"
# What a plain client reaches is the link; a share of the nominal rate would blame headers on contenders.
CALIBRATION_READS = 3


def run(session: Session) -> None:
    """All rows of this group; the local file system has no link and takes no part."""
    scale = session.scale
    with (
        storage_link(scale.link_bits_per_s) as link,
        S3Server(
            session.server.root, state=session.work / "link-server", link=link, count_requests=False
        ) as server,
    ):
        _bring_into_server(session)
        rate = _plain_bytes_per_s(server, scale)
        session.say(f"the link gives a plain client {rate / 1e6:.0f} MB/s")
        session.samples.add(rows.LINK_RATE, "plain-client", rate / 1e6)
        remote = [contender for contender in session.contenders if contender.kind is not Kind.LOCAL]
        for repetition, contender in session.repeated(remote):
            if session.samples.gave_up(rows.LINK_ONE, contender.name):
                continue
            session.say(f"limited link {repetition + 1}: {contender.name}")
            with session.attempt(contender, *ROWS):
                _measure(session, contender, server, link, rate)


def _bring_into_server(session: Session) -> None:
    """Reads the server's files once: its disk would else be part of what the first to ask waits for.

    The contenders' own caches are new with each mount, and so is what the kernel knows of it: nothing is dropped here.
    """
    bucket = session.server.bucket_folder(BUCKET)
    files = [*large_paths(bucket, session.scale), *(bucket / key for key in _first_byte_keys(session.scale))]
    session.loop.run("read", files, seconds=60)


def _first_byte_keys(scale: Scale) -> list[str]:
    """Small files far from one another: neighbours could have been fetched ahead."""
    step = max(1, scale.small_files // scale.first_byte_files)
    return [small_name(FIRST_BYTE_FOLDER, index * step) for index in range(scale.first_byte_files)]


def _plain_bytes_per_s(server: S3Server, scale: Scale) -> float:
    """The best of a few plain GETs of a large object: what the link can carry."""
    size = min(scale.link_read_bytes, scale.large_file_bytes)
    get = functools.partial(cold.get_seconds, server.client(), BUCKET, large_name(0), size)
    return size / min(get() for _ in range(CALIBRATION_READS))


def _measure(
    session: Session, contender: Contender, server: S3Server, link: NamespaceLink | ProxyLink, rate: float
) -> None:
    scale, name, source = session.scale, contender.name, session.source(server=server)
    limit_s = 3 + 8 * scale.link_read_bytes / rate
    with session.mounted(contender, source, "link") as tree:
        before, files = link.received_bytes(), large_paths(tree.directory, scale)[:1]
        size = min(scale.link_read_bytes, scale.large_file_bytes)
        got = cold.cold_bytes_per_s(session.loop, files, threads=1, bytes_each=size, limit_s=limit_s)
        session.samples.add(rows.LINK_ONE, name, got / rate)
        if size == scale.large_file_bytes:
            session.samples.add(rows.LINK_BYTES, name, (link.received_bytes() - before) / size)
        _first_bytes(session, contender, server, tree.directory)
    with session.mounted(contender, source, "link") as tree:
        files = large_paths(tree.directory, scale)[:READERS]
        got = cold.cold_bytes_per_s(
            session.loop, files, threads=READERS, bytes_each=size // len(files), limit_s=limit_s
        )
        session.samples.add(rows.LINK_MANY, name, got / rate)


def _first_bytes(session: Session, contender: Contender, server: S3Server, tree: Path) -> None:
    """Small files that nobody has read; the bucket's own time is taken on the same files."""
    keys = _first_byte_keys(session.scale)
    before_ms = cold.origin_first_byte_ms(server.client(), BUCKET, keys)
    got_ms = cold.first_byte_ms(session.loop, [tree / key for key in keys], limit_s=20)
    # Before and after, so that a disturbance of the machine does not count for or against the contender.
    origin_ms = (before_ms + cold.origin_first_byte_ms(server.client(), BUCKET, keys)) / 2
    session.samples.add(rows.FIRST_BYTE_RAW, contender.name, got_ms)
    session.samples.add(rows.FIRST_BYTE_RAW, "plain-client", origin_ms)
    session.samples.add(rows.FIRST_BYTE, contender.name, got_ms - origin_ms)
