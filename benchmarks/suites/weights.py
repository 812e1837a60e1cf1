"""A model's weights on one node: over a limited link with nothing cached, then from the contender's own cache.

Beside those that mount, programs that stream from the bucket into memory take part where they are installed: cold
only, as they keep nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks import rows_of_weights as rows
from benchmarks.contenders import Contender, Kind, Source
from benchmarks.data import copy_bucket
from benchmarks.machine import drop_caches
from benchmarks.model import BUCKET, make_model, shard_name, shard_paths
from benchmarks.native import LoopError
from benchmarks.rows_of_weights import LOADS, Load
from benchmarks.session import Session
from benchmarks.workloads import cold, weights
from benchmarks.workloads.weights import Rank, ThisMachine
from headrace.testing.network import NamespaceLink, ProxyLink, storage_link
from headrace.testing.s3_server import S3Server

STREAMERS: Mapping[str, tuple[str, ...]] = {
    "fsspec-s3fs": ("s3fs",),
    "runai-streamer": ("runai_model_streamer",),
}
CALIBRATION_BYTES = 64 << 20
CALIBRATION_READS = 3
ALL_ROWS = (*(row for one in LOADS for row in (one.cold(), one.share(), one.warm())), rows.BYTES)


def run(session: Session) -> None:
    """All rows of this group."""
    if (reason := weights.missing()) is not None:
        for row in ALL_ROWS:
            session.samples.leave_out(row, "headrace", reason)
        return
    bucket = session.server.bucket_folder(BUCKET)
    session.say("making the weights of a model, twice")
    size_bytes = make_model(bucket, session.scale)
    copy_bucket(bucket, session.work / "local" / BUCKET)
    with (
        storage_link(session.scale.model_link_bits_per_s) as link,
        S3Server(
            session.server.root, state=session.work / "weights-server", link=link, count_requests=False
        ) as server,
    ):
        rate = plain_bytes_per_s(server, session)
        session.say(f"the link gives a plain client {rate / 1e6:.0f} MB/s")
        stand = Stand(session, server, link, size_bytes, rate)
        for repetition, contender in session.repeated(list(session.contenders)):
            session.say(f"model weights {repetition + 1}: {contender.name}")
            stand.measure(contender)
        stand.measure_streamers()
        _shares(session, size_bytes / rate)


class Stand:
    """The bucket behind its link, and who loads from it."""

    def __init__(
        self,
        session: Session,
        server: S3Server,
        link: NamespaceLink | ProxyLink,
        size_bytes: int,
        bytes_per_s: float,
    ) -> None:
        self._session = session
        self._server = server
        self._link = link
        self._size_bytes = size_bytes
        self._limit_s = 20 + 4 * size_bytes / bytes_per_s
        self._source = Source(server.endpoint, BUCKET, "", server.region, server.credentials)

    def measure(self, contender: Contender) -> None:
        """Every loader, each on a mount of its own: nothing is cached for it."""
        for load in LOADS:
            if self._session.samples.gave_up(load.cold(), contender.name):
                continue
            with (
                self._session.attempt(contender, load.cold(), load.warm()),
                self._session.mounted(contender, self._source, "weights") as tree,
            ):
                self._measure_load(contender, load, tree.directory)

    def _measure_load(self, contender: Contender, load: Load, tree: Path) -> None:
        samples, before = self._session.samples, self._link.received_bytes()
        first_s = self._seconds(load, tree)
        samples.add(load.cold(), contender.name, first_s)
        if contender.kind is Kind.LOCAL:
            samples.add(load.warm(), contender.name, first_s)
            return
        if load is rows.SAFE_OPEN:
            fetched = self._link.received_bytes() - before
            samples.add(rows.BYTES, contender.name, fetched / self._size_bytes)
        samples.add(load.warm(), contender.name, self._seconds(load, tree))

    def measure_streamers(self) -> None:
        """Programs that read the bucket themselves, in the row of the usual loader."""
        row = rows.SAFE_OPEN.cold()
        for name, packages in STREAMERS.items():
            if (reason := weights.missing(*packages)) is not None:
                self._session.samples.leave_out(row, name, reason)
                continue
            self._session.say(f"model weights: {name}")
            try:
                self._session.samples.add(row, name, self._streamed_seconds(name))
            except LoopError as error:
                self._session.say(f"  {error}")
                self._session.samples.leave_out(row, name, str(error).splitlines()[-1][:300])

    def _streamed_seconds(self, name: str) -> float:
        count = self._session.scale.model_shards
        urls = [f"s3://{BUCKET}/{shard_name(index, count)}" for index in range(count)]
        rank = Rank(self._place, urls, environment=_streamer_environment(self._source))
        return weights.load_seconds(
            name, [rank], self._session.work, before=drop_caches, limit_s=self._limit_s
        )

    def _seconds(self, load: Load, tree: Path) -> float:
        names = shard_paths(tree, self._session.scale)
        ranks = [Rank(self._place, names, rank, load.ranks) for rank in range(load.ranks)]
        return weights.load_seconds(
            load.loader, ranks, self._session.work, before=drop_caches, limit_s=self._limit_s
        )

    @property
    def _place(self) -> ThisMachine:
        return ThisMachine(self._session.work / "loaders")


def plain_bytes_per_s(server: S3Server, session: Session) -> float:
    """The best of a few plain GETs of the first shard: what the link gives to anybody."""
    size = min(CALIBRATION_BYTES, shard_paths(server.bucket_folder(BUCKET), session.scale)[0].stat().st_size)
    key, client = shard_name(0, session.scale.model_shards), server.client()
    return size / min(cold.get_seconds(client, BUCKET, key, size) for _ in range(CALIBRATION_READS))


def _streamer_environment(source: Source) -> dict[str, str]:
    return {
        **source.credentials.environment(),
        "AWS_ENDPOINT_URL": source.endpoint,
        "AWS_DEFAULT_REGION": source.region,
        "AWS_REGION": source.region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "RUNAI_STREAMER_S3_ENDPOINT": source.endpoint,
        "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0",
    }


def _shares(session: Session, link_s: float) -> None:
    """How each cold load stands to the longer of what the link and what the local disk need."""
    for load in LOADS:
        known = session.samples.summaries(load.cold().key)
        if "local" not in known:
            continue
        needed_s = max(link_s, known["local"].median)
        for name in known.keys() - {"local"}:
            for seconds in session.samples.values[load.cold().key][name]:
                session.samples.add(load.share(), name, seconds / needed_s)
