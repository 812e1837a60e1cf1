"""What a run of the benchmark tells of the machine's own speed."""

from __future__ import annotations

import os

from benchmarks.pulse import Pulse, pulse, pulse_facts


def test_the_range_over_a_run_is_told() -> None:
    facts = pulse_facts([Pulse(17.2, 27.0), Pulse(74.8, 64.4), Pulse(40.0, 30.0)])
    assert list(facts.values()) == ["17 to 75 µs", "27 to 64 ns"]


def test_a_run_that_broke_off_at_once_tells_nothing() -> None:
    assert pulse_facts([]) == {}


def test_a_pulse_takes_the_time_of_this_machine_and_leaves_the_thread_where_it_may_run() -> None:
    before = os.sched_getaffinity(0)
    taken = pulse()
    assert taken.wake_up_us > 0.1
    assert taken.addition_ns > 0.1
    assert os.sched_getaffinity(0) == before
