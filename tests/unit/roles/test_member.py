"""What a mount tells its master of its traffic."""

from __future__ import annotations

from headrace.control.messages import Traffic
from headrace.engine.status import ReadReport
from headrace.roles.cluster.follower import traffic_of


def test_bytes_of_workers_on_other_nodes_are_told_apart() -> None:
    assert traffic_of(ReadReport(hit_bytes=60, miss_bytes=50, cluster_bytes=40)) == Traffic(
        local_bytes=70, peer_bytes=40
    )


def test_what_the_kernel_reads_itself_is_local() -> None:
    reads = ReadReport(miss_bytes=50, cluster_bytes=80, passthrough_opens=2, passthrough_estimated_bytes=600)
    assert traffic_of(reads) == Traffic(local_bytes=600, peer_bytes=50)
