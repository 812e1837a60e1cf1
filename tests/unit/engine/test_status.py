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
    reads = ReadReport(hit_bytes=30, miss_bytes=20, passthrough_opens=2, passthrough_estimated_bytes=150)
    assert (reads.read_bytes, reads.hit_ratio) == (200, 0.9)


def test_shares_of_nothing_are_unknown() -> None:
    assert ReadReport().hit_ratio is None
    assert EngineReport(name="n", pid=1).cached_share is None
    assert (
        EngineReport(name="n", pid=1, cached_bytes=1, snapshot=SnapshotReport(bytes=4)).cached_share == 0.25
    )
