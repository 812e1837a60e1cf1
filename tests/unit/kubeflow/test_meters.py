"""What reading cost a job, from counters of processes that come, go and are shared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_objects import mpijob

from headrace.jobs.data_cost import Counters, cost_of, mount_counters, values_of, worker_counters
from headrace.jobs.views import DataCost
from headrace.kubeflow.meters import Metering, Reading, metering_of, text_of
from headrace.kubeflow.names import DATA_COST_ANNOTATION

TEXT = """\
# HELP headrace_read_hit_bytes Bytes
headrace_read_hit_bytes_total 600
headrace_read_miss_bytes_total 400
headrace_cluster_read_bytes_total 500
headrace_cluster_own_node_bytes_total 100
headrace_read_seconds_sum 2.5
headrace_read_seconds_bucket{le="+Inf"} 7
headrace_passthrough_opens_total 3
headrace_passthrough_estimated_bytes_total 300
headrace_snapshot_files 10
headrace_snapshot_size_bytes 1000
headrace_store_used_bytes{level="0"} 5
headrace_store_used_bytes{level="a } b"} 6
headrace_broken
headrace_origin_bytes_total 200
# EOF
"""


def reading(source: str, life: str = "a", *, before: bool = True, **counters: float) -> Reading:
    return Reading(source, life, Counters(**counters), before)


def metered(*rounds: list[Reading]) -> DataCost:
    metering = Metering()
    for each in rounds:
        metering = metering.read(each, is_shared=False)
    assert metering.cost is not None
    return metering.cost


def test_metrics_are_summed_over_their_labels() -> None:
    values = values_of(TEXT)
    assert values["headrace_store_used_bytes"] == 11
    assert "headrace_broken" not in values
    assert mount_counters(values) == Counters(
        read_bytes=1000, far_bytes=400, kernel_bytes=300, stalled_s=2.5, origin_bytes=0
    )
    assert worker_counters(values) == Counters(origin_bytes=200)


@pytest.mark.parametrize(
    ("grown", "expected"),
    [
        (Counters(), (0, 0, 0)),
        (Counters(read_bytes=100), (0, 0, 100)),
        (Counters(read_bytes=100, far_bytes=60), (0, 60, 40)),
        (Counters(read_bytes=100, far_bytes=60, origin_bytes=100), (100, 0, 0)),
        (Counters(read_bytes=100, far_bytes=50, origin_bytes=20), (20, 40, 40)),
        (Counters(read_bytes=100, far_bytes=50, origin_bytes=500), (500, 0, 0)),
        (Counters(kernel_bytes=100), (0, 0, 100)),
    ],
)
def test_bytes_by_where_they_came_from(grown: Counters, expected: tuple[int, int, int]) -> None:
    cost = cost_of(grown)
    assert (cost.origin_bytes, cost.peer_bytes, cost.local_bytes) == expected
    assert cost.is_reckoned is (grown.kernel_bytes > 0)


def test_what_was_counted_before_the_job_is_not_its_own() -> None:
    cost = metered(
        [reading("imagenet/mount/n1", read_bytes=1000, stalled_s=9)],
        [reading("imagenet/mount/n1", read_bytes=1300, stalled_s=10)],
    )
    assert (cost.local_bytes, cost.stalled_s) == (300, 1)


def test_a_mount_that_came_for_the_job_counts_from_zero() -> None:
    assert metered([reading("imagenet/mount/n1", before=False, read_bytes=300)]).local_bytes == 300


def test_a_process_that_starts_again_begins_at_zero() -> None:
    cost = metered(
        [reading("m", read_bytes=1000)],
        [reading("m", read_bytes=1100)],
        [reading("m", "b", before=False, read_bytes=50)],
        [reading("m", "b", before=False, read_bytes=70)],
    )
    assert cost.local_bytes == 170


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000)), min_size=1, max_size=20),
    st.integers(0, 19),
)
def test_a_keeper_that_is_started_again_goes_on_with_the_same_numbers(
    reads: list[tuple[int, int]], restart: int
) -> None:
    """The annotation is all that the next one has."""
    counted = dict.fromkeys(range(4), 0)
    whole = broken = Metering()
    for step, (source, grown) in enumerate(reads):
        counted[source] += grown
        seen = [reading(f"imagenet/mount/{source}", read_bytes=counted[source])]
        whole, broken = whole.read(seen, is_shared=False), broken.read(seen, is_shared=False)
        if step == restart:
            broken = metering_of(mpijob(annotations={DATA_COST_ANNOTATION: text_of(broken)}))
    assert broken.cost == whole.cost


def test_the_end_is_kept_without_the_counters() -> None:
    metering = Metering().read([reading("m", before=False, read_bytes=5)], is_shared=True).closed()
    text = text_of(metering)
    assert '"meters":{}' in text
    again = metering_of(mpijob(annotations={DATA_COST_ANNOTATION: text}))
    assert again.is_final
    assert again.cost == metering.cost
    assert again.cost is not None
    assert again.cost.is_shared


@pytest.mark.parametrize("text", ["", "x", "[]", '{"version":1}', '{"version":1,"meters":{"a":[1]}}'])
def test_an_annotation_that_makes_no_sense_is_none(text: str) -> None:
    assert metering_of(mpijob(annotations={DATA_COST_ANNOTATION: text})).cost is None
