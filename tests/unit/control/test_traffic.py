from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.control.messages import Traffic
from headrace.control.traffic import KEPT_S, SAMPLE_EVERY_S, Throughput


def origin(count: int) -> Traffic:
    return Traffic(origin_bytes=count)


def test_rates_follow_from_counters() -> None:
    throughput = Throughput()
    throughput.sample(100.0)
    throughput.note("w", "1", origin(1000))  # first sight: what was moved before is not ours
    throughput.note("w", "1", origin(1500))
    throughput.sample(105.0)
    (sample,) = throughput.samples()
    assert (sample.at_s, sample.local, sample.peer, sample.origin) == (105.0, 0, 0, 100.0)


def test_a_restarted_process_counts_from_zero() -> None:
    throughput = Throughput()
    throughput.sample(0.0)
    throughput.note("w", "1", origin(10_000))
    throughput.note("w", "2", origin(50))
    throughput.sample(5.0)
    assert throughput.samples()[0].origin == 10.0


def test_fifteen_minutes_are_kept() -> None:
    throughput = Throughput()
    for second in range(3000):
        throughput.sample(float(second))
    samples = throughput.samples()
    assert samples[0].at_s >= 2999 - KEPT_S - SAMPLE_EVERY_S
    assert len(samples) <= KEPT_S / SAMPLE_EVERY_S + 1


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_no_byte_is_counted_twice_or_lost(moved: list[int]) -> None:
    throughput = Throughput()
    throughput.sample(0.0)
    throughput.note("w", "1", origin(0))
    total = 0
    for number, count in enumerate(moved, start=1):
        total += count
        throughput.note("w", "1", origin(total))
        throughput.sample(number * SAMPLE_EVERY_S)
    assert sum(sample.origin * SAMPLE_EVERY_S for sample in throughput.samples()) == pytest.approx(total)
