"""What a job's data cost, from counters that begin anew whenever their process does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.local.jobs.cost_accounting import Counters, Meter, advanced, cost_of


def mount(**values: object) -> dict[str, Counters]:
    return {"mount": Counters.model_validate({"instance": "a", **values})}


def worker(**values: object) -> dict[str, Counters]:
    return {"worker": Counters.model_validate({"instance": "w", **values})}


def test_only_what_was_counted_in_the_time_of_the_job_counts() -> None:
    meter = advanced(Meter(), mount(read_bytes=500, stalled_s=2.0) | worker(origin_bytes=400))
    cost = cost_of(meter)
    assert cost is not None
    assert (cost.total_bytes, cost.hit_ratio, cost.stalled_s) == (0, None, 0.0)
    now = mount(read_bytes=1500, remote_bytes=600, stalled_s=3.5) | worker(origin_bytes=600)
    cost = cost_of(advanced(meter, now))
    assert cost is not None
    assert (cost.origin_bytes, cost.peer_bytes, cost.local_bytes) == (200, 480, 320)
    assert (cost.hit_ratio, cost.stalled_s) == (0.8, 1.5)


def test_a_mount_that_began_for_the_job_counts_from_zero_and_so_does_one_that_began_anew() -> None:
    meter = advanced(Meter(), mount(read_bytes=100, is_new=True))
    meter = advanced(meter, mount(instance="b", read_bytes=50))
    cost = cost_of(meter)
    assert cost is not None
    assert cost.local_bytes == 150


def test_a_load_is_not_charged_to_the_job() -> None:
    load = {"load": Counters(instance="load", is_new=True, loaded_bytes=900)}
    meter = advanced(
        Meter(), mount(read_bytes=1000, is_new=True) | worker(origin_bytes=1000, is_new=True) | load
    )
    cost = cost_of(meter)
    assert cost is not None
    assert (cost.origin_bytes, cost.local_bytes) == (100, 900)


def test_who_shared_is_not_forgotten() -> None:
    meter = advanced(Meter(), mount(), is_shared=True)
    cost = cost_of(advanced(meter, mount()))
    assert cost is not None
    assert cost.is_shared
    assert cost_of(Meter()) is None


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000)), max_size=8))
def test_nothing_is_lost_or_negative(steps: list[tuple[int, int, int]]) -> None:
    meter = advanced(Meter(), mount(is_new=True) | worker(is_new=True))
    read = remote = origin = 0
    for more_read, more_remote, more_origin in steps:
        read, origin = read + more_read, origin + more_origin
        remote += min(more_remote, more_read)
        now = mount(read_bytes=read, remote_bytes=remote) | worker(origin_bytes=origin)
        meter = advanced(meter, now)
    cost = cost_of(meter)
    assert cost is not None
    assert min(cost.origin_bytes, cost.peer_bytes, cost.local_bytes) >= 0
    assert cost.total_bytes == max(read, origin)
