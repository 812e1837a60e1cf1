"""Nodes in network namespaces over one bucket, with Headrace's roles or with a peer's mounts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.contenders import Contender, MountError, Source
from benchmarks.session import Session
from headrace.testing.cluster import ClusterBed, CommandError, Node, Rules, open_bed
from headrace.testing.cluster.cluster_bed import BUCKET
from headrace.testing.processes import ServerStartError

Trees = Sequence[tuple[Node, Path]]
"""Each node that reads, and where."""


@contextlib.contextmanager
def cluster_over(
    bucket: Path, session: Session, nodes: int, *, rules: Rules | None = None, start: bool = True
) -> Iterator[ClusterBed]:
    """A cluster over the bucket; what keeps it from working is a MountError with the ends of its logs."""
    chosen = rules or Rules(block_size="4Mi", counts_objects=False)
    with ClusterBed(open_bed(nodes, base=session.work.parent), chosen, bucket=bucket) as cluster:
        try:
            if start:
                cluster.start()
            yield cluster
        except (CommandError, ServerStartError, RuntimeError) as error:
            session.say(cluster.bed.log_tails())
            raise MountError(f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def peers_over(
    bucket: Path, session: Session, nodes: int, contender: Contender
) -> Iterator[tuple[ClusterBed, Trees, Sequence[int]]]:
    """The same bed and storage without any role of ours: the peer runs once for each node, on this machine's side of
    the storage's link. With its processes."""
    with cluster_over(bucket, session, nodes, start=False) as cluster, contextlib.ExitStack() as mounts:
        trees, processes = [], []
        for node in cluster.bed.nodes:
            mounting = session.mounted(contender, source_of(cluster), f"cluster-{node.name}")
            mounted = mounts.enter_context(mounting)
            trees.append((node, mounted.directory))
            processes += mounted.processes()
        yield cluster, trees, processes


def source_of(cluster: ClusterBed) -> Source:
    """The cluster's bucket, for who reads it alone."""
    server = cluster.server
    return Source(server.endpoint, BUCKET, "", server.region, server.credentials)


def trees_of(cluster: ClusterBed, nodes: Sequence[Node]) -> Trees:
    """Where Headrace shows the bucket on each of the nodes."""
    return [(node, cluster.mountpoint(node)) for node in nodes]
