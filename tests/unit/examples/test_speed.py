from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resnet50.speed import Speedometer, perf_timing, step_durations


def meter(*ends_s: float) -> Speedometer:
    made = Speedometer(100)
    for end_s in ends_s:
        made.add(end_s)
    return made


def test_a_line_is_that_of_tf_cnn_benchmarks() -> None:
    assert meter(1.0, 2.0).line(6.9) == "2\timages/sec: 100.0 +/- 0.0 (jitter = 0.0)\t6.900"


def test_the_total_counts_the_wait_for_the_first_batch() -> None:
    assert meter(3.0, 4.0).total_images_per_s == 50.0
    assert meter().total_images_per_s == 0.0


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=50))
def test_durations_add_up_to_the_last_end(durations_s: list[float]) -> None:
    ends_s = [sum(durations_s[: number + 1]) for number in range(len(durations_s))]
    assert sum(step_durations(ends_s)) == pytest.approx(ends_s[-1])


def test_the_mean_is_over_time_and_jitter_over_steps() -> None:
    mean, uncertainty, jitter = perf_timing(10, [1.0, 1.0, 2.0])
    assert mean == pytest.approx(7.5)
    assert uncertainty > 0
    assert jitter == 0
