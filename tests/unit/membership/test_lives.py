"""The lives of a worker, one rule a test."""

from __future__ import annotations

import pytest
from clusters import Cluster, beat

from headrace.errors import BusyError, ConfigError
from headrace.membership import DrainAsked, DrainCancelled, Drained, Left, Order, WorkerState


def test_first_worker_is_listed_at_once_and_further_ones_together() -> None:
    cluster = Cluster.start()
    assert cluster.do(beat("node-1")).view is not None
    for name in ("node-2", "node-3"):
        assert cluster.do(beat(name)).view is None
    cluster.wait(1.0)
    assert cluster.listed == ["node-1", "node-2", "node-3"]
    assert [view.epoch for view in cluster.views] == [1, 2]
    assert [member.joined_epoch for member in cluster.views[-1].members] == [1, 2, 2]


def test_worker_that_does_not_serve_yet_is_known_but_not_listed() -> None:
    cluster = Cluster.start("node-1")
    cluster.do(beat("node-2", ready=False))
    cluster.wait(3.0, "node-1", "node-2")
    assert cluster.state_of("node-2") is WorkerState.JOINING
    assert cluster.listed == ["node-1"]
    cluster.do(beat("node-2"))
    assert cluster.listed == ["node-1", "node-2"]


def test_silent_worker_is_suspected_then_taken_out() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3")
    epoch = cluster.state.epoch
    cluster.wait(6.0, "node-1", "node-3")
    assert cluster.state_of("node-2") is WorkerState.SUSPECT
    assert cluster.state.epoch == epoch
    assert "node-2 is silent for 6 s: suspected" in cluster.said()
    cluster.wait(10.0, "node-1", "node-3")
    assert cluster.state_of("node-2") is WorkerState.DEAD
    assert cluster.listed == ["node-1", "node-3"]
    assert "node-2 is silent for 16 s: taken out of the view" in cluster.said()


def test_suspect_that_is_heard_again_changes_nothing_for_readers() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3")
    before = cluster.views[-1]
    cluster.wait(7.0, "node-1", "node-3")
    cluster.do(beat("node-2"))
    cluster.wait(2.0, "node-1", "node-2", "node-3")
    assert cluster.state_of("node-2") is WorkerState.ACTIVE
    assert cluster.views[-1] is before
    assert "node-2 is heard again after 8 s" in cluster.said()


def test_dead_worker_begins_a_new_life_with_a_new_joined_epoch() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3", calm_s=1)
    joined = cluster.member("node-2").joined_epoch
    cluster.wait(20.0, "node-1", "node-3")
    cluster.do(beat("node-2"))
    cluster.wait(1.0)
    assert cluster.member("node-2").joined_epoch == cluster.state.epoch > joined


def test_quick_restart_with_its_cache_changes_nothing() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3")
    before = cluster.views[-1]
    cluster.wait(10.0, "node-1", "node-3")
    # Recovering: it is not served by yet, and says nothing of its cache.
    cluster.do(beat("node-2", incarnation=2, ready=False, cached_bytes=0))
    cluster.wait(3.0, "node-1", "node-3")
    cluster.do(beat("node-2", incarnation=2))
    cluster.wait(5.0, "node-1", "node-2", "node-3")
    assert cluster.views[-1] is before


def test_worker_that_recovers_longer_than_dead_s_is_taken_out_meanwhile() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3")
    for _ in range(16):
        cluster.do(beat("node-2", incarnation=2, ready=False, cached_bytes=0))
        cluster.wait(1.0, "node-1", "node-3")
    assert cluster.listed == ["node-1", "node-3"]


def test_restart_with_an_empty_cache_is_a_new_life() -> None:
    cluster = Cluster.start("node-1", "node-2", calm_s=1)
    joined = cluster.member("node-2").joined_epoch
    cluster.wait(2.0, "node-1", "node-2")
    cluster.do(beat("node-2", incarnation=2, cached_bytes=0))
    cluster.wait(1.0, "node-1", "node-2")
    assert cluster.member("node-2").joined_epoch > joined
    assert "node-2 came back with an empty cache" in cluster.said()


def test_restart_of_a_worker_that_had_nothing_changes_nothing() -> None:
    cluster = Cluster.start()
    cluster.do(beat("node-1", cached_bytes=0))
    cluster.do(beat("node-1", incarnation=2, cached_bytes=0))
    cluster.wait(3.0, "node-1")
    assert [view.epoch for view in cluster.views] == [1]


def test_older_process_of_the_same_name_is_told_to_end() -> None:
    cluster = Cluster.start("node-1")
    cluster.do(beat("node-1", incarnation=5))
    reply = cluster.hear(beat("node-1", incarnation=4, address="elsewhere:1"))
    assert reply.order is Order.SUPERSEDED
    cluster.wait(2.0)
    assert cluster.member("node-1").address == "node-1:7070"
    # Nor does its end end the younger one.
    cluster.do(Left("node-1", incarnation=4))
    assert cluster.state_of("node-1") is WorkerState.ACTIVE


def test_new_address_is_published() -> None:
    cluster = Cluster.start("node-1")
    cluster.do(beat("node-1", incarnation=2, address="10.0.0.9:1"))
    cluster.wait(1.0)
    assert cluster.member("node-1").address == "10.0.0.9:1"
    assert cluster.member("node-1").joined_epoch == 1


@pytest.mark.parametrize(
    ("capacities", "epochs"),
    [
        pytest.param([1.0, 1.02, 0.99, 1.0], 0, id="noise"),
        pytest.param([1.0, 1.2, 1.2, 1.2], 1, id="a new disk"),
        pytest.param([1.0, 0.0, 0.0], 1, id="no room any more"),
        pytest.param([1.0, 1.05, 1.0, 1.05, 1.0, 1.05], 0, id="a step to and fro"),
        pytest.param([1.0, 1.15, 1.1, 1.15, 1.1, 1.15], 1, id="to and fro after a change"),
    ],
)
def test_capacity_counts_in_steps(capacities: list[float], epochs: int) -> None:
    cluster = Cluster.start()
    for capacity in capacities:
        cluster.do(beat(capacity_bytes=int(capacity * 10**12)))
        cluster.wait(1.0)
    assert len(cluster.views) - 1 == epochs
    assert 0.92 <= (cluster.views[-1].members[0].weight or 1) / (capacities[-1] * 10**12 or 1) <= 1.08


def test_drained_worker_hands_over_then_leaves_the_view_and_stays_out() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3")
    cluster.do(DrainAsked("node-2"))
    cluster.wait(1.0, "node-1", "node-2", "node-3")
    assert cluster.member("node-2").state == "draining"
    assert cluster.hear(beat("node-2")).order is Order.DRAIN
    cluster.do(Drained("node-2"))
    cluster.wait(1.0, "node-1", "node-2", "node-3")
    assert cluster.listed == ["node-1", "node-3"]
    assert cluster.hear(beat("node-2")).order is Order.STOP
    # Started again, it is wanted again.
    assert cluster.hear(beat("node-2", incarnation=2)).order is Order.SERVE
    cluster.wait(5.0, "node-1", "node-2", "node-3")
    assert cluster.listed == ["node-1", "node-2", "node-3"]


def test_draining_worker_that_restarts_goes_on_draining() -> None:
    cluster = Cluster.start("node-1", "node-2")
    cluster.do(DrainAsked("node-2"))
    assert cluster.hear(beat("node-2", incarnation=2)).order is Order.DRAIN


def test_worker_that_wished_to_end_and_was_started_again_stays() -> None:
    cluster = Cluster.start("node-1", "node-2")
    assert cluster.hear(beat("node-2", leaving=True)).order is Order.DRAIN
    cluster.wait(2.0, "node-1", "node-2")
    assert cluster.member("node-2").state == "draining"
    assert cluster.hear(beat("node-2", incarnation=2)).order is Order.SERVE
    cluster.wait(1.0, "node-1", "node-2")
    assert cluster.member("node-2").state == "active"


def test_cancelled_drain_gives_the_share_back() -> None:
    cluster = Cluster.start("node-1", "node-2")
    cluster.do(DrainAsked("node-2"))
    cluster.do(DrainCancelled("node-2"))
    cluster.do(Drained("node-2"))
    cluster.wait(2.0, "node-1", "node-2")
    assert cluster.member("node-2").state == "active"


@pytest.mark.parametrize(
    ("order", "error", "words"),
    [
        (DrainAsked("node-9"), ConfigError, "not a worker of this cluster"),
        (DrainAsked("node-3"), ConfigError, "left already"),
        (DrainAsked("node-1", least_active=2), BusyError, "would leave 1 active workers, and 2 are to stay"),
        (DrainCancelled("node-1"), ConfigError, "worker node-1 is active"),
    ],
)
def test_orders_that_cannot_be_followed_are_refused(order, error, words: str) -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3")
    cluster.do(Left("node-3", incarnation=1))
    with pytest.raises(error, match=words) as caught:
        cluster.do(order)
    assert caught.value.hint


def test_suspects_do_not_count_as_those_who_stay() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3")
    cluster.wait(6.0, "node-1", "node-2")
    with pytest.raises(BusyError):
        cluster.do(DrainAsked("node-1", least_active=2))
    cluster.do(DrainAsked("node-3", least_active=2))


def test_worker_that_says_goodbye_is_out_at_once_and_late_heartbeats_do_not_bring_it_back() -> None:
    cluster = Cluster.start("node-1", "node-2")
    cluster.do(Left("node-2", incarnation=1))
    cluster.do(beat("node-2"))
    cluster.wait(2.0, "node-1")
    assert cluster.listed == ["node-1"]


def test_gone_workers_are_forgotten_after_a_while() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3", forget_s=100)
    cluster.do(Left("node-2", incarnation=1))
    cluster.wait(99.0, "node-1")
    assert {"node-2", "node-3"} <= set(cluster.state.workers)
    cluster.wait(30.0, "node-1")
    assert set(cluster.state.workers) == {"node-1"}
