"""A model's weights on two nodes, each with two tensor-parallel ranks that need all of them together.

Both nodes at once with nothing cached; the same again; and a node that loads what another one has loaded before it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks import rows_of_weights as rows
from benchmarks.contenders import Contender, Kind
from benchmarks.machine import drop_caches
from benchmarks.model import make_model, shard_name, shard_paths
from benchmarks.session import Session
from benchmarks.suites.beds import Trees, cluster_over, peers_over, trees_of
from benchmarks.workloads import cold, raw_tcp, weights
from benchmarks.workloads.weights import Place, Rank, ThisMachine
from headrace.netns.namespaces import can_make_namespaces
from headrace.testing.cluster import ClusterBed, Rules
from headrace.testing.cluster.cluster_bed import BUCKET

NODES = 2
SUBJECT = "headrace"
LOAD = rows.TENSOR_PARALLEL
CALIBRATION_BYTES = 64 << 20
CALIBRATION_READS = 3
COLD_ROWS = (rows.NODES_TIME, rows.NODES_BYTES)
NEXT_ROWS = (rows.NEXT_TIME, rows.NEXT_BYTES)


def run(session: Session) -> None:
    """All rows of this group. Without namespaces there is no link to be limited, and no row."""
    reason = weights.missing() or ("" if can_make_namespaces() else "network namespaces need root")
    if reason:
        for row in rows.NODE_ROWS:
            session.samples.leave_out(row, SUBJECT, reason)
        return
    bucket = session.work / "weights-bucket"
    session.say("making the weights of a model for two nodes")
    stand = Stand(session, bucket, make_model(bucket, session.scale))
    remote = [one for one in session.contenders if one.kind is Kind.PEER or one.name == SUBJECT]
    for repetition, contender in session.repeated(remote):
        if session.samples.gave_up(rows.NODES_TIME, contender.name):
            continue
        session.say(f"model weights on {NODES} nodes {repetition + 1}: {contender.name}")
        with session.attempt(contender, *COLD_ROWS):
            stand.measure(contender)
    for subject in remote:
        if subject.name == SUBJECT:
            session.say("model weights on the next node")
            with session.attempt(subject, *NEXT_ROWS):
                stand.measure_next()
    shutil.rmtree(bucket, ignore_errors=True)


class Stand:
    """The model in its bucket, and what the local disk takes for it."""

    def __init__(self, session: Session, bucket: Path, size_bytes: int) -> None:
        self._session = session
        self._bucket = bucket
        self._size_bytes = size_bytes
        here = ThisMachine(session.work / "loaders")
        # The bucket's own files, their pages dropped: the disk gives them as it gives any.
        self._local_s = self._seconds([(here, bucket)])
        self._local_of_all_s = self._seconds([(here, bucket)] * NODES)

    def measure(self, contender: Contender) -> None:
        """Headrace as a whole cluster, which loads a second time; a peer once for each node."""
        if contender.kind is Kind.PEER:
            with peers_over(self._bucket, self._session, NODES, contender) as (cluster, trees, _):
                self._cold(contender.name, cluster, trees)
            return
        with cluster_over(self._bucket, self._session, NODES, rules=self._rules()) as cluster:
            trees = trees_of(cluster, cluster.bed.nodes)
            self._cold(contender.name, cluster, trees)
            again_s = self._seconds(trees)
        self._session.samples.add(rows.NODES_AGAIN, contender.name, again_s / self._local_of_all_s)

    def measure_next(self) -> None:
        """The first node loads; then the second, which has read nothing yet, over links of a node's rate."""
        with cluster_over(self._bucket, self._session, NODES, rules=self._rules()) as cluster:
            first, second = trees_of(cluster, cluster.bed.nodes)
            self._seconds([first])
            rate, node, storage = self._limited_bytes_per_s(cluster), second[0], cluster.bed.storage
            received, sent = node.link_bytes().received, storage.link_bytes().sent
            seconds = self._seconds([second])
            received, sent = node.link_bytes().received - received, storage.link_bytes().sent - sent
        self._session.samples.add(rows.NEXT_TIME, SUBJECT, seconds / max(received / rate, self._local_s))
        self._session.samples.add(rows.NEXT_BYTES, SUBJECT, sent / 2**20)

    def _limited_bytes_per_s(self, cluster: ClusterBed) -> float:
        """Limits the links of the nodes; what they then give to a plain sendfile, in bytes on the wire."""
        limit = self._session.scale.model_link_bits_per_s
        for node in cluster.bed.nodes:
            node.set_rate(limit, received_bits_per_s=limit)
        sender, receiver = cluster.bed.nodes
        file = shard_paths(self._bucket, self._session.scale)[0]
        before = receiver.link_bytes().received
        plain = raw_tcp.sendfile(sender, receiver, file, min(4 * CALIBRATION_BYTES, limit // 8))
        return (receiver.link_bytes().received - before) / plain.seconds

    def _cold(self, name: str, cluster: ClusterBed, trees: Trees) -> None:
        storage, scale = cluster.bed.storage, self._session.scale
        storage.set_rate(scale.link_bits_per_s)
        needed_s = max(self._size_bytes / self._plain_bytes_per_s(cluster), self._local_s)
        before = storage.link_bytes()
        seconds = self._seconds(trees, limit_s=20 + 2 * NODES * needed_s)
        sent = (storage.link_bytes() - before).sent
        storage.set_rate(None)
        self._session.samples.add(rows.NODES_TIME, name, seconds / needed_s)
        self._session.samples.add(rows.NODES_BYTES, name, sent / self._size_bytes)

    def _seconds(self, trees: list[tuple[Place, Path]] | Trees, *, limit_s: float = 300) -> float:
        ranks = [
            Rank(place, shard_paths(tree, self._session.scale), rank, LOAD.ranks)
            for place, tree in trees
            for rank in range(LOAD.ranks)
        ]
        return weights.load_seconds(
            LOAD.loader, ranks, self._session.work, before=drop_caches, limit_s=limit_s
        )

    def _rules(self) -> Rules:
        quota_mebibytes = 2 * (self._size_bytes >> 20) + 1024
        return Rules(block_size="4Mi", counts_objects=False, quota=f"{quota_mebibytes}Mi")

    def _plain_bytes_per_s(self, cluster: ClusterBed) -> float:
        """The best of a few plain GETs: what the storage's link gives to anybody."""
        key = shard_name(0, self._session.scale.model_shards)
        size = min(CALIBRATION_BYTES, (self._bucket / key).stat().st_size)
        client = cluster.server.client()
        return size / min(cold.get_seconds(client, BUCKET, key, size) for _ in range(CALIBRATION_READS))
