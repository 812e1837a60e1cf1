from __future__ import annotations

import pytest

from headrace.engine.status import EngineReport, JobReport, ReadReport, SnapshotReport


@pytest.mark.parametrize(
    ("changed", "complete"),
    [
        ({}, True),
        ({"state": "running"}, False),
        ({"state": "cancelled"}, False),
        ({"done_bytes": 9}, False),
        ({"done_files": 1}, False),
        ({"did_not_fit_bytes": 1}, False),
        ({"errors": ["x"]}, False),
        ({"errors": [{"path": "a", "message": "b"}]}, False),
    ],
)
def test_complete_means_that_every_byte_is_in(changed: dict, complete: bool) -> None:
    whole = {"state": "done", "done_bytes": 10, "total_bytes": 10, "done_files": 2, "total_files": 2}
    assert JobReport.model_validate({**whole, **changed}).complete is complete


def test_what_the_kernel_read_itself_are_hits() -> None:
    kernel = {"passthrough_opens": 2, "passthrough_estimated_bytes": 150}
    reads = ReadReport(hit_bytes=30, miss_bytes=20, origin_bytes=20, **kernel)
    assert (reads.read_bytes, reads.hit_ratio) == (200, 0.9)


@pytest.mark.parametrize(
    ("reads", "ratio"),
    [
        # Read ahead of a reader, or for a known order: whoever reads, it came from the origin.
        (ReadReport(hit_bytes=90, miss_bytes=10, origin_bytes=100), 0.0),
        # Blocks come whole.
        (ReadReport(hit_bytes=60, miss_bytes=40, origin_bytes=400), 0.0),
        # A warm-up is nobody's read.
        (ReadReport(hit_bytes=100, origin_bytes=100, loaded_bytes=100), 1.0),
        (ReadReport(hit_bytes=75, miss_bytes=25, origin_bytes=125, loaded_bytes=100), 0.75),
        # Workers know it.
        (ReadReport(hit_bytes=100, through_workers=True), None),
    ],
)
def test_the_hit_ratio_is_what_the_origin_did_not_send_for_readers(
    reads: ReadReport, ratio: float | None
) -> None:
    assert reads.hit_ratio == ratio


def test_shares_of_nothing_are_unknown() -> None:
    assert ReadReport().hit_ratio is None
    assert EngineReport(name="n", pid=1).cached_share is None
    assert (
        EngineReport(name="n", pid=1, cached_bytes=1, snapshot=SnapshotReport(bytes=4)).cached_share == 0.25
    )
