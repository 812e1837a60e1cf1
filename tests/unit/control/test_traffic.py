from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.control.messages import Traffic
from headrace.control.traffic import KEPT_S, SAMPLE_EVERY_S, SETTLED_AFTER_S, Reads, Throughput


def origin(count: int) -> Traffic:
    return Traffic(origin_bytes=count)


def test_rates_follow_from_counters() -> None:
    throughput = Throughput()
    throughput.note("w", "1", origin(1000), 100.0)  # first sight: what was moved before is not ours
    throughput.note("w", "1", origin(1500), 104.0)
    (sample,) = throughput.samples(105.0 + SETTLED_AFTER_S)
    assert (sample.at_s, sample.local, sample.peer, sample.origin) == (105.0, 0, 0, 100.0)


def test_a_restarted_process_counts_from_zero() -> None:
    throughput = Throughput()
    throughput.note("w", "1", origin(10_000), 0.0)
    throughput.note("w", "2", origin(50), 4.0)
    assert throughput.samples(20.0)[0].origin == 10.0


def test_a_steady_reader_that_reports_seldom_is_a_steady_line() -> None:
    throughput = Throughput()
    for second in range(3, 100, 10):
        throughput.note("m", "1", Traffic(peer_bytes=1000 * second), float(second))
    rates = [sample.peer for sample in throughput.samples(93.0)]
    assert rates[1:] == pytest.approx([1000.0] * 15)


def test_what_not_all_have_reported_is_not_shown_yet() -> None:
    throughput = Throughput()
    throughput.note("m", "1", origin(0), 100.0)
    throughput.note("m", "1", origin(10), 110.0)
    assert [sample.at_s for sample in throughput.samples(113.0)] == []
    assert [sample.at_s for sample in throughput.samples(118.0)] == [105.0]


def test_fifteen_minutes_are_kept() -> None:
    throughput = Throughput()
    for second in range(3000):
        throughput.note("w", "1", origin(second), float(second))
    samples = throughput.samples(3000.0)
    assert samples[0].at_s >= 3000 - KEPT_S - SETTLED_AFTER_S - SAMPLE_EVERY_S
    assert len(samples) == KEPT_S / SAMPLE_EVERY_S


def test_what_was_read_in_the_last_minute_is_set_against_what_was_fetched_for_it() -> None:
    throughput = Throughput()
    for member in ("w", "m"):
        throughput.note(member, "1", Traffic(), 1000.0)
    throughput.note("w", "1", Traffic(origin_bytes=1000, loaded_bytes=400), 1002.0)
    throughput.note("m", "1", Traffic(local_bytes=700, peer_bytes=100), 1010.0)
    assert throughput.last_minute(1001.0 + SETTLED_AFTER_S) == Reads(0, 0, 0)
    assert throughput.last_minute(1012.0 + SETTLED_AFTER_S) == Reads(800, 100, 600)
    # What is forgotten first is what was read: a cold read never ends as a warm one.
    later = [throughput.last_minute(1000.0 + second + SETTLED_AFTER_S) for second in range(10, 90)]
    assert all(each.fetched_bytes == 600 for each in later if each.read_bytes)
    assert later[-1] == Reads(0, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 40)), min_size=1, max_size=20))
def test_no_byte_is_counted_twice_or_lost(reports: list[tuple[int, float]]) -> None:
    throughput = Throughput()
    now_s, total = 1000.0, 0
    throughput.note("w", "1", origin(0), now_s)
    for count, pause_s in reports:
        now_s += pause_s
        total += count
        throughput.note("w", "1", origin(total), now_s)
    later_s = now_s + SETTLED_AFTER_S + SAMPLE_EVERY_S
    shown = sum(sample.origin * SAMPLE_EVERY_S for sample in throughput.samples(later_s))
    assert shown == pytest.approx(total)
