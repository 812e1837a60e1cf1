"""What a job's data cost, from counters of processes that come, go and are shared."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jobs.data_cost import (
    Counters,
    Metering,
    Reading,
    cost_of,
    mount_counters,
    values_of,
    worker_counters,
)
from headrace.jobs.views import DataCost

TEXT = """\
# TYPE headrace_read_hit_bytes counter
# HELP headrace_read_hit_bytes Bytes
headrace_read_hit_bytes_total 600
# TYPE headrace_read_miss_bytes counter
headrace_read_miss_bytes_total 400
# TYPE headrace_cluster_read_bytes counter
headrace_cluster_read_bytes_total 500
# TYPE headrace_cluster_own_node_bytes counter
headrace_cluster_own_node_bytes_total 100
# TYPE headrace_read_seconds histogram
headrace_read_seconds_bucket{le="+Inf"} 7
headrace_read_seconds_sum 2.5
headrace_read_seconds_count 7
# TYPE headrace_passthrough_estimated_bytes counter
headrace_passthrough_estimated_bytes_total 300
# TYPE headrace_store_used_bytes gauge
headrace_store_used_bytes{level="0"} 5
headrace_store_used_bytes{level="a } b"} 6
# TYPE others gauge
others 1
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
    assert values is not None
    assert values["headrace_store_used_bytes"] == 11
    assert "others" not in values
    assert mount_counters(values) == Counters(
        read_bytes=1000, remote_bytes=400, kernel_bytes=300, stalled_s=2.5, fetched_bytes=0
    )


def test_what_reads_metrics_is_loaded_when_there_are_some() -> None:
    program = "import sys, headrace.kubeflow.metering; print('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_half_a_text_has_no_values() -> None:
    """A counter that is missing would be taken for one that began anew."""
    for end in range(0, len(TEXT) - len("# EOF\n"), 7):
        assert values_of(TEXT[:end]) is None


@given(
    st.lists(
        st.sampled_from(
            [*'abc{}"\\=,:# \n01.eE+-[]', "headrace_", "_total", "# TYPE ", " counter\n", "histogram\n"]
        )
    )
)
def test_any_text_is_read_or_refused(parts: list[str]) -> None:
    values_of("".join(parts))
    values_of(f"# TYPE headrace_a counter\n{''.join(parts)}\n# EOF\n")


def test_a_long_line_of_a_stranger_costs_no_time() -> None:
    """The library takes the square of it: this one would take it hours."""
    quotes = '\\"' * (4 << 20)
    assert values_of(f'headrace_a{{b="{quotes}"}} 1\n# EOF\n') is None


@pytest.mark.parametrize(
    ("grown", "expected"),
    [
        (Counters(), (0, 0, 0)),
        (Counters(read_bytes=100), (0, 0, 100)),
        (Counters(read_bytes=100, remote_bytes=60), (0, 60, 40)),
        (Counters(read_bytes=100, remote_bytes=60, fetched_bytes=100), (100, 0, 0)),
        (Counters(read_bytes=100, remote_bytes=50, fetched_bytes=20), (20, 40, 40)),
        (Counters(read_bytes=100, remote_bytes=50, fetched_bytes=500), (500, 0, 0)),
        (Counters(kernel_bytes=100), (0, 0, 100)),
    ],
)
def test_bytes_by_where_they_came_from(grown: Counters, expected: tuple[int, int, int]) -> None:
    cost = cost_of(grown)
    assert (cost.origin_bytes, cost.peer_bytes, cost.local_bytes) == expected
    assert cost.is_reckoned is (grown.kernel_bytes > 0)


def test_what_was_counted_before_the_job_is_not_its_own() -> None:
    first = [reading("mount/n1", read_bytes=500, stalled_s=2), reading("worker/a", fetched_bytes=400)]
    before = metered(first)
    assert (before.total_bytes, before.hit_ratio, before.stalled_s) == (0, None, 0.0)
    then = [
        reading("mount/n1", read_bytes=1500, remote_bytes=600, stalled_s=3.5),
        reading("worker/a", fetched_bytes=600),
    ]
    cost = metered(first, then)
    assert (cost.origin_bytes, cost.peer_bytes, cost.local_bytes) == (200, 480, 320)
    assert (cost.hit_ratio, cost.stalled_s) == (0.8, 1.5)


def test_a_mount_that_came_for_the_job_counts_from_zero() -> None:
    assert metered([reading("mount/n1", before=False, read_bytes=300)]).local_bytes == 300


def test_a_process_that_starts_again_begins_at_zero() -> None:
    cost = metered(
        [reading("m", read_bytes=1000)],
        [reading("m", read_bytes=1100)],
        [reading("m", "b", before=False, read_bytes=50)],
        [reading("m", "b", before=False, read_bytes=70)],
    )
    assert cost.local_bytes == 170


def test_what_a_load_fetched_is_not_charged_to_the_job() -> None:
    worker = Reading("worker/a", "a", worker_counters(origin_bytes=1000, loaded_bytes=900), False)
    cost = metered([reading("mount/n1", before=False, read_bytes=1000), worker])
    assert (cost.origin_bytes, cost.local_bytes, cost.hit_ratio) == (100, 900, 0.9)


def test_who_shared_is_not_forgotten() -> None:
    metering = Metering().read([reading("m")], is_shared=True).read([reading("m")], is_shared=False)
    assert metering.cost is not None
    assert metering.cost.is_shared
    assert Metering().cost is None


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000)), max_size=8))
def test_nothing_is_lost_or_negative(steps: list[tuple[int, int, int]]) -> None:
    rounds = [[reading("m", before=False), reading("w", before=False)]]
    read = remote = fetched = 0
    for more_read, more_remote, more_fetched in steps:
        read, fetched = read + more_read, fetched + more_fetched
        remote += min(more_remote, more_read)
        rounds.append(
            [reading("m", read_bytes=read, remote_bytes=remote), reading("w", fetched_bytes=fetched)]
        )
    cost = metered(*rounds)
    assert min(cost.origin_bytes, cost.peer_bytes, cost.local_bytes) >= 0
    assert cost.total_bytes == max(read, fetched)
