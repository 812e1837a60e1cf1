"""Many nodes, one cache: what a cold epoch takes from the storage, what peers give each other, what changes cost.

Headrace runs as a whole cluster in network namespaces; a peer mounts the bucket once for each node, as its users do.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from benchmarks import rows
from benchmarks.contenders import Contender, Kind
from benchmarks.data import make_cluster_bucket
from benchmarks.machine import touch_memory
from benchmarks.samples import Row
from benchmarks.session import Session
from benchmarks.suites.beds import Trees, cluster_over, peers_over, source_of, trees_of
from benchmarks.workloads import cold, curl, raw_tcp, sdk_peers
from benchmarks.workloads.epochs import LOADERS, Cost, Epoch, finish_epoch, run_epoch, start_epoch
from headrace.netns.namespaces import can_make_namespaces
from headrace.process.stat import process_tree
from headrace.testing.cluster import ClusterBed, Node, Rules
from headrace.testing.cluster.cluster_bed import BUCKET

NODES = 4
SUBJECT = "headrace"
RAW = "raw-tcp"
IPERF = "iperf3"
CURL = "curl"
CALIBRATION_READS = 3
SETTLE_S = 1.0
COLD_ROWS = (rows.CLUSTER_BYTES, rows.CLUSTER_COLD)
WARM_ROWS = (rows.CLUSTER_WARM,)
FAST_ROWS = (rows.CLUSTER_COLD_FAST,)
PEER_ROWS = (
    rows.PEER_LIMITED,
    rows.PEER_FREE,
    rows.PEER_SHARE,
    rows.PEER_BATCH,
    rows.PEER_SINGLE,
    rows.PEER_COST,
    rows.LOCAL_COST,
    rows.ORIGIN_COST,
)
SCALE_ROWS = (rows.SCALE_SHARE, rows.SCALE_JOIN, rows.SCALE_TIME, rows.SCALE_BYTES)
KILL_ROWS = (rows.CALM_STALL, rows.KILL_STALL, rows.TRUSTING_STALL, rows.KILL_ERRORS)
HISTOGRAM = "How long opens and reads waited while a worker was killed"


def run(session: Session) -> None:
    """All rows of this group. Without namespaces there is no link to be limited, and no row."""
    remote = [one for one in session.contenders if one.kind is Kind.PEER or one.name == SUBJECT]
    if not can_make_namespaces():
        for row in (*COLD_ROWS, *FAST_ROWS, *WARM_ROWS, *PEER_ROWS, *SCALE_ROWS, *KILL_ROWS):
            session.samples.leave_out(row, SUBJECT, "network namespaces need root")
        return
    bucket = session.work / "cluster-bucket"
    session.say(f"making {session.scale.cluster_bytes() / 2**20:.0f} MiB for the cluster")
    make_cluster_bucket(bucket, session.scale)
    for repetition, contender in session.repeated(remote):
        if not session.samples.gave_up(rows.CLUSTER_COLD, contender.name):
            session.say(f"cold epoch of {NODES} nodes {repetition + 1}: {contender.name}")
            _epochs(session, contender, bucket)
    for subject in remote:
        if subject.name == SUBJECT:
            _headrace_alone(session, subject, bucket)
        else:
            with session.attempt(subject, rows.ORIGIN_COST):
                _peer_cost(session, subject, bucket)
    _least_cost(session, bucket)
    shutil.rmtree(bucket, ignore_errors=True)


def _headrace_alone(session: Session, subject: Contender, bucket: Path) -> None:
    """What has no counterpart among the peers."""
    steps: Sequence[tuple[str, Sequence[Row], Callable[[Session, Path], None]]] = (
        ("cold epoch on a fast link", FAST_ROWS, _fast_link),
        ("reads from a peer", PEER_ROWS, _peers),
        ("4 nodes join 4", SCALE_ROWS, _scale_out),
        ("a worker is killed", KILL_ROWS, _kill),
    )
    for title, affected, measure in steps:
        session.say(title)
        with session.attempt(subject, *affected):
            measure(session, bucket)


# --- epochs ---


def _epochs(session: Session, contender: Contender, bucket: Path) -> None:
    """A cold epoch of whoever it is; Headrace goes on with a warm one."""
    if contender.kind is Kind.PEER:
        with session.attempt(contender, *COLD_ROWS):
            _peer_epoch(session, contender, bucket)
        return
    with session.attempt(contender, *COLD_ROWS, *WARM_ROWS), cluster_over(bucket, session, NODES) as cluster:
        trees = trees_of(cluster, cluster.bed.nodes)
        _cold_epoch(session, contender, cluster, trees)
        with session.attempt(contender, *WARM_ROWS):
            _warm_epoch(session, contender, cluster, trees)


def _peer_epoch(session: Session, contender: Contender, bucket: Path) -> None:
    with peers_over(bucket, session, NODES, contender) as (cluster, trees, _):
        _cold_epoch(session, contender, cluster, trees)


def _cold_epoch(session: Session, contender: Contender, cluster: ClusterBed, trees: Trees) -> None:
    bytes_times, time_times = _cold_times(session, cluster, trees, session.scale.cluster_link_bits_per_s)
    session.samples.add(rows.CLUSTER_BYTES, contender.name, bytes_times)
    session.samples.add(rows.CLUSTER_COLD, contender.name, time_times)


def _fast_link(session: Session, bucket: Path) -> None:
    with cluster_over(bucket, session, NODES) as cluster:
        trees = trees_of(cluster, cluster.bed.nodes)
        _, time_times = _cold_times(session, cluster, trees, session.scale.link_bits_per_s)
    session.samples.add(rows.CLUSTER_COLD_FAST, SUBJECT, time_times)


def _cold_times(
    session: Session, cluster: ClusterBed, trees: Trees, rate_bits_per_s: int
) -> tuple[float, float]:
    """How many times its bytes, and the time that these need on the link, an epoch takes from the storage."""
    size_bytes, storage = session.scale.cluster_bytes(), cluster.bed.storage
    storage.set_rate(rate_bits_per_s)
    needed_s = size_bytes / _plain_bytes_per_s(session, cluster)
    before = storage.link_bytes()
    epoch = _epoch(session, trees, limit_s=10 + 6 * len(trees) * needed_s)
    sent = (storage.link_bytes() - before).sent
    storage.set_rate(None)
    return sent / size_bytes, epoch.seconds / needed_s


def _warm_epoch(session: Session, contender: Contender, cluster: ClusterBed, trees: Trees) -> None:
    """Each node's link is limited both ways; what goes over them in the epoch goes from worker to node. Shares of so
    little data are not equal: whoever holds most has the busiest link, and the epoch cannot end before that."""
    _limit_nodes(cluster, session.scale.cluster_link_bits_per_s)
    for _ in range(session.scale.repetitions):
        raw = _raw(session, cluster, cluster.bed.nodes[:2])
        before = [node.link_bytes() for node, _ in trees]
        epoch = _epoch(session, trees)
        moved = [node.link_bytes() - earlier for (node, _), earlier in zip(trees, before, strict=True)]
        busiest = max(max(one.received, one.sent) for one in moved)
        session.samples.add(rows.CLUSTER_WARM, contender.name, busiest / epoch.seconds / raw)


# --- peers and costs ---


def _peers(session: Session, bucket: Path) -> None:
    """Two nodes with one worker: what the other node reads comes from the peer, all of it."""
    scale = session.scale
    with cluster_over(bucket, session, 2, start=False) as cluster:
        holder, reader = cluster.bed.nodes
        cluster.start_master()
        cluster.start_worker(holder)
        for node in (holder, reader):
            cluster.start_mount(node)
        for row, node in ((rows.ORIGIN_COST, holder), (rows.LOCAL_COST, holder), (rows.PEER_COST, reader)):
            epoch, cost = _epoch_of(session, cluster, node)
            session.samples.add(row, SUBJECT, cost)
        raw = raw_tcp.sendfile(holder, reader, _some_file(bucket), scale.cluster_bytes())
        session.samples.add(rows.PEER_COST, RAW, raw.processor_s / raw.size_bytes * 1e9)
        session.samples.add(rows.PEER_FREE, RAW, raw.bytes_per_s / 1e6)
        if (known := raw_tcp.iperf3(holder, reader)) is not None:
            session.samples.add(rows.PEER_FREE, IPERF, known / 1e6)
        session.samples.add(rows.PEER_FREE, SUBJECT, epoch.size_bytes / epoch.seconds / 1e6)
        session.samples.add(rows.PEER_SHARE, SUBJECT, epoch.size_bytes / epoch.seconds / raw.bytes_per_s)
        _limit_nodes(cluster, scale.link_bits_per_s)
        limited = _raw(session, cluster, (holder, reader))
        epoch, _ = _epoch_of(session, cluster, reader)
        session.samples.add(rows.PEER_LIMITED, SUBJECT, epoch.size_bytes / epoch.seconds / limited)
        # A mount of its own, which holds nothing in its memory.
        cluster.stop_mount(reader)
        _limit_nodes(cluster, None)
        cluster.start_mount(reader)
        rates = sdk_peers.measure(reader, cluster.mountpoint(reader), limit_s=_patience_s(session))
        session.samples.add(rows.PEER_BATCH, SUBJECT, rates.batch_bytes_per_s / 1e6)
        session.samples.add(rows.PEER_SINGLE, SUBJECT, rates.single_bytes_per_s / 1e6)


def _epoch_of(session: Session, cluster: ClusterBed, node: Node) -> tuple[Epoch, float]:
    """One node reads everything, nothing of it from its page cache; the epoch, and its processor seconds a GB."""
    roles = [*cluster.workers.values(), cluster.mounts[node.name]]
    cost = Cost(pid for role in roles for pid in process_tree(role.pid))
    epoch = _epoch(session, trees_of(cluster, [node]))
    return epoch, cost.seconds_per_gigabyte(epoch)


def _peer_cost(session: Session, contender: Contender, bucket: Path) -> None:
    """One node reads everything through a peer that has nothing of it."""
    with peers_over(bucket, session, 1, contender) as (_, trees, processes):
        cost = Cost(pid for known in processes for pid in process_tree(known))
        epoch = _epoch(session, trees)
        session.samples.add(rows.ORIGIN_COST, contender.name, cost.seconds_per_gigabyte(epoch))


def _least_cost(session: Session, bucket: Path) -> None:
    """The same bytes by a client that only writes them into files: nobody reads those."""
    folder = session.work / CURL
    folder.mkdir()
    keys = [str(path.relative_to(bucket)) for path in sorted(bucket.rglob("*")) if path.is_file()]
    with cluster_over(bucket, session, 1, start=False) as cluster:
        source = source_of(cluster)
        try:
            cost = curl.processor_seconds_per_gigabyte(source, keys, folder, limit_s=_patience_s(session))
            session.samples.add(rows.ORIGIN_COST, CURL, cost)
        except (OSError, subprocess.SubprocessError) as error:
            session.samples.leave_out(rows.ORIGIN_COST, CURL, f"{error}")
    shutil.rmtree(folder, ignore_errors=True)


# --- changes ---


def _scale_out(session: Session, bucket: Path) -> None:
    """A warm cluster of 4 becomes one of 8; then all new nodes read everything."""
    scale = session.scale
    with cluster_over(bucket, session, NODES, rules=Rules(block_size="4Mi")) as cluster:
        cluster.load()
        before = cluster.origin_object_bytes()
        start = time.monotonic()
        joined = cluster.grow(NODES)
        session.samples.add(rows.SCALE_JOIN, SUBJECT, time.monotonic() - start)
        epoch = run_epoch(
            trees_of(cluster, joined), limit_s=_patience_s(session), size_bytes=scale.cluster_bytes()
        )
        session.samples.add(rows.SCALE_TIME, SUBJECT, epoch.seconds)
        session.samples.add(rows.SCALE_BYTES, SUBJECT, (cluster.origin_object_bytes() - before) / 2**20)
        # Two heartbeats: what the workers hold now has been told.
        time.sleep(SETTLE_S + 2 * cluster.rules.heartbeat_interval_s)
        status = cluster.status()
        moved = sum(status.workers[node.name].cached_bytes for node in joined)
        session.samples.add(rows.SCALE_SHARE, SUBJECT, moved / scale.cluster_bytes() * 100)


def _kill(session: Session, bucket: Path) -> None:
    """An epoch without a fault, and one in which a worker is killed: files are of one block, so a reader waits for the
    whole of one, proven by the storage's checksum, while the others share the link with it."""
    calm = _limited_epoch(session, bucket, lambda _: None)
    epoch = _limited_epoch(session, bucket, _kill_third)
    trusting = _limited_epoch(session, bucket, _kill_third, origin={"ignore-checksums": "true"})
    session.samples.add(rows.CALM_STALL, SUBJECT, calm.longest_wait_s)
    session.samples.add(rows.KILL_STALL, SUBJECT, epoch.longest_wait_s)
    session.samples.add(rows.TRUSTING_STALL, SUBJECT, trusting.longest_wait_s)
    session.samples.add(rows.KILL_ERRORS, SUBJECT, epoch.errors)
    session.samples.histograms[HISTOGRAM] = epoch.waits()


def _limited_epoch(
    session: Session,
    bucket: Path,
    meanwhile: Callable[[ClusterBed], None],
    origin: Mapping[str, str] = MappingProxyType({}),
) -> Epoch:
    """Readers on two nodes of three, nothing cached, a limited storage with these options more; `meanwhile` comes in
    the middle of it."""
    scale = session.scale
    rules = Rules(block_size="4Mi", counts_objects=False, origin=origin)
    with cluster_over(bucket, session, 3, rules=rules) as cluster:
        cluster.bed.storage.set_rate(scale.cluster_link_bits_per_s)
        start = time.monotonic()
        readings = start_epoch(trees_of(cluster, cluster.bed.nodes[:2]), flags=("--passes", "2"))
        readings[0].wait_for_files(scale.cluster_files // (3 * LOADERS))
        meanwhile(cluster)
        return finish_epoch(readings, start, limit_s=2 * _patience_s(session))


def _kill_third(cluster: ClusterBed) -> None:
    victim = cluster.bed.nodes[2]
    victim.kill(cluster.workers[victim.name])


# --- the bed ---


def _limit_nodes(cluster: ClusterBed, bits_per_s: int | None) -> None:
    for node in cluster.bed.nodes:
        node.set_rate(bits_per_s, received_bits_per_s=bits_per_s)


def _epoch(session: Session, trees: Trees, *, limit_s: float | None = None) -> Epoch:
    """All of them read everything; the same memory for everybody: what the readers' page caches and the workers' caches
    will need."""
    size = session.scale.cluster_bytes()
    touch_memory((len(trees) + 2) * size)
    return run_epoch(trees, limit_s=limit_s or _patience_s(session), size_bytes=size)


def _raw(session: Session, cluster: ClusterBed, nodes: Sequence[Node]) -> float:
    """Bytes a second of a plain sendfile between two nodes, as their links are now."""
    sender, receiver = nodes
    size = min(session.scale.cluster_bytes(), session.scale.cluster_link_bits_per_s // 4)
    return raw_tcp.sendfile(sender, receiver, _some_file(cluster.bucket), size).bytes_per_s


def _some_file(bucket: Path) -> Path:
    return next(path for path in sorted(bucket.rglob("*")) if path.is_file())


def _plain_bytes_per_s(session: Session, cluster: ClusterBed) -> float:
    """The best of a few plain GETs: what the storage's link gives to anybody. Also brings the file into its memory."""
    key = str(_some_file(cluster.bucket).relative_to(cluster.bucket))
    size, client = session.scale.cluster_file_bytes, cluster.server.client()
    return size / min(cold.get_seconds(client, BUCKET, key, size) for _ in range(CALIBRATION_READS))


def _patience_s(session: Session) -> float:
    """Generous: ten times what the limited link needs for the data of all nodes."""
    return 30 + 10 * NODES * session.scale.cluster_bytes() * 8 / session.scale.cluster_link_bits_per_s
