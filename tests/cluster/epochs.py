"""An epoch on all nodes, and what it costs the storage."""

from __future__ import annotations

from headrace.testing.cluster import ClusterBed


def storage_bytes_of_an_epoch(cluster: ClusterBed) -> int:
    """What the storage gives while all nodes read everything."""
    before = cluster.origin_object_bytes()
    readings = [
        cluster.reading(node, "--drop", "--threads", "16", "--seed", str(seed))
        for seed, node in enumerate(cluster.bed.nodes)
    ]
    for reading in readings:
        reading.finish()
        assert not cluster.content.wrong(reading.files())
    return cluster.origin_object_bytes() - before
