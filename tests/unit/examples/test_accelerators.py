from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resnet50.accelerators import EXCHANGE_SHARE, TABLE, StepClock, batch_s

STEP_S = 1.0


class Time:
    """A clock that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def now(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def clock_of(time: Time, step_s: float = STEP_S) -> StepClock:
    return StepClock(step_s, now=time.now, sleep=time.sleep)


def test_a_batch_takes_longer_on_a_slower_accelerator() -> None:
    v100 = TABLE["emulated-v100"]
    assert batch_s(v100, images=256, slowdown=1) == pytest.approx(0.384, abs=0.001)
    assert batch_s(v100, images=8, slowdown=24) == pytest.approx(0.288, abs=0.001)


@given(st.lists(st.floats(0, 0.8), min_size=1, max_size=50))
def test_batches_in_time_leave_no_gap_whatever_the_host_does_meanwhile(work_s: list[float]) -> None:
    time = Time()
    clock = clock_of(time)
    for seconds in work_s:
        clock.take()
        time.sleep(seconds)
        clock.wait_for_exchange()
        clock.exchanged()
    assert clock.end_s == pytest.approx(100 + len(work_s) * STEP_S)
    assert clock.waited_s == 0


def test_a_late_batch_is_waited_for_and_counted() -> None:
    time = Time()
    clock = clock_of(time)
    time.sleep(0.5)
    clock.take()
    clock.wait_for_exchange()
    clock.exchanged()
    assert clock.end_s == pytest.approx(101.5)
    time.sleep(2)
    begun_s = time.now_s
    clock.take()
    assert clock.end_s == pytest.approx(begun_s + STEP_S)
    assert clock.waited_s == pytest.approx(0.5 + begun_s - 101.5)


def test_gradients_are_exchanged_at_the_end_of_the_step() -> None:
    time = Time()
    clock = clock_of(time)
    clock.take()
    clock.wait_for_exchange()
    assert time.now_s == pytest.approx(100 + STEP_S * (1 - EXCHANGE_SHARE))


def test_no_step_ends_before_all_ranks_have_exchanged_gradients() -> None:
    time = Time()
    clock = clock_of(time)
    clock.take()
    clock.wait_for_exchange()
    time.sleep(3)
    clock.exchanged()
    assert clock.end_s == pytest.approx(time.now_s)
    assert clock.late_s == pytest.approx(3 - STEP_S * EXCHANGE_SHARE)


def test_a_real_accelerator_is_waited_for_as_long_as_it_takes() -> None:
    time = Time()
    clock = clock_of(time, 0)
    for _ in range(3):
        clock.take()
        time.sleep(0.7)
        clock.wait_for_exchange()
        clock.exchanged()
    assert clock.end_s == pytest.approx(102.1)
