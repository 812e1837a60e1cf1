"""What the master makes of its own troubles: cut off, stopped, restarted, without its state, with very many workers."""

from __future__ import annotations

import pytest
from clusters import Cluster, beat

from headrace.membership import Left, Policy, Ticked, WorkerState, dump, fresh, restore, step

NAMES = tuple(f"node-{number}" for number in range(1, 5))


def restarted(cluster: Cluster, **policy: object) -> Cluster:
    """The cluster's next master, whose clock knows nothing of the last one's."""
    outcome = restore(dump(cluster.state), Policy(**policy), 7.0)
    assert outcome.view is not None and outcome.save
    return Cluster(outcome.state, now_s=7.0, views=[*cluster.views, outcome.view])


def test_stopped_master_does_not_hold_its_own_silence_against_the_workers() -> None:
    cluster = Cluster.start(*NAMES)
    cluster.now_s += 300
    cluster.do(beat("node-1"))
    cluster.wait(4.0, "node-1")
    assert {cluster.state_of(name) for name in NAMES} == {WorkerState.ACTIVE}
    assert "did not run for 300 s" in cluster.said()


def test_master_that_hears_fewer_than_half_doubts_itself_before_it_empties_the_view() -> None:
    cluster = Cluster.start(*NAMES)
    cluster.wait(70.0, "node-1")
    assert cluster.listed == list(NAMES)
    assert "3 of 4 workers are silent: perhaps the master is cut off" in cluster.said()
    cluster.wait(10.0, "node-1")
    assert cluster.listed == ["node-1"]


def test_master_that_was_cut_off_has_changed_nothing_when_its_workers_are_back() -> None:
    cluster = Cluster.start(*NAMES)
    before = cluster.views[-1]
    cluster.wait(40.0)
    cluster.wait(40.0, *NAMES)
    assert cluster.views[-1] is before


def test_doubt_can_be_switched_off() -> None:
    cluster = Cluster.start(*NAMES, doubt_s=0)
    cluster.wait(20.0)
    assert cluster.listed == []


def test_restarted_master_goes_on_with_the_same_places_in_a_later_epoch() -> None:
    before = Cluster.start(*NAMES)
    before.wait(6.0, *NAMES[1:])
    before.do(Left("node-4", incarnation=1))
    before.wait(1.0, *NAMES[1:3])
    after = restarted(before)
    assert after.views[-1].epoch > before.state.epoch
    assert after.views[-1].places_like(before.views[-1])
    assert after.state_of("node-4") is WorkerState.LEFT


def test_nobody_is_silent_before_the_grace_period_of_a_restart_is_over() -> None:
    cluster = restarted(Cluster.start(*NAMES), grace_s=30, doubt_s=0)
    cluster.wait(44.0)
    assert cluster.listed == list(NAMES)
    cluster.wait(3.0)
    assert cluster.listed == []


def test_worker_that_was_heard_after_a_restart_has_no_grace() -> None:
    cluster = restarted(Cluster.start(*NAMES), grace_s=300)
    cluster.do(beat("node-2"))
    cluster.wait(16.0, "node-1", "node-3", "node-4")
    assert cluster.listed == ["node-1", "node-3", "node-4"]


def test_changed_number_of_replicas_is_published() -> None:
    assert restarted(Cluster.start(*NAMES), replicas=2).views[-1].replicas == 2


def test_master_without_its_state_learns_it_back_and_shows_no_half_empty_view_meanwhile() -> None:
    cluster = Cluster.start(grace_s=30)
    for number, name in enumerate(NAMES):
        assert cluster.do(beat(name, known_epoch=700, joined_epoch=100 + number)).view is None
        cluster.wait(5.0, *NAMES[: number + 1])
    assert cluster.views == []
    cluster.wait(10.0, *NAMES)
    assert [view.epoch for view in cluster.views] == [701]
    assert [member.joined_epoch for member in cluster.views[0].members] == [100, 101, 102, 103]


def test_once_it_knows_its_workers_a_master_believes_no_stories_of_earlier_lives() -> None:
    cluster = Cluster.start(*NAMES, grace_s=3)
    cluster.wait(4.0, *NAMES)
    cluster.do(beat("node-9", known_epoch=1, joined_epoch=1))
    cluster.wait(1.0, *NAMES)
    assert cluster.member("node-9").joined_epoch == cluster.state.epoch


def test_epoch_that_a_worker_knows_is_never_reached_twice() -> None:
    cluster = Cluster.start(*NAMES, grace_s=0)
    cluster.do(beat("node-1", known_epoch=900))
    cluster.wait(1.0, *NAMES)
    assert cluster.views[-1].epoch == 901


def test_time_that_runs_backwards_counts_as_standing_still() -> None:
    cluster = Cluster.start(*NAMES)
    for now_s in (5.0, -1.0, 0.0):
        outcome = step(cluster.state, Ticked(), now_s)
        assert outcome.state.now_s == cluster.now_s and not outcome.notices


def test_very_many_workers_are_heard_less_often_and_given_more_time() -> None:
    policy = Policy()
    for workers, interval_s in ((1, 1.0), (500, 1.0), (10_000, 20.0), (65_535, 131.07)):
        assert policy.interval_s(workers) == pytest.approx(interval_s)
        assert workers / policy.interval_s(workers) <= 500
        # Two heartbeats may be lost before anybody is alarmed, four before anything moves.
        assert policy.suspect_after_s(interval_s) >= 2.5 * interval_s
        assert policy.dead_after_s(interval_s) >= 4.5 * interval_s


def test_worker_is_judged_by_the_interval_that_it_was_asked_for() -> None:
    cluster = Cluster.start("node-1", "node-2", heartbeats_per_s=0.1, heartbeat_s=1)
    assert cluster.hear(beat("node-1")).interval_s == 20
    # Fewer workers ask for a shorter interval, but nobody has told the others yet.
    cluster.state = step(cluster.state, Left("node-2", incarnation=1), cluster.now_s).state
    cluster.wait(40.0)
    assert cluster.state_of("node-1") is WorkerState.ACTIVE


def test_new_master_has_no_view_before_its_first_worker() -> None:
    outcome = step(fresh(Policy(), 0.0), Ticked(), 1.0)
    assert outcome.view is None and not outcome.save and outcome.state.epoch == 0


def test_a_master_that_lost_its_state_uses_no_epoch_a_second_time() -> None:
    """A worker that never heard of the earlier master cannot tell its epochs, and may be the first to report."""
    cluster = Cluster(fresh(Policy(), 1000.0, first_epoch=5000))
    cluster.do(beat("new"))
    cluster.wait(cluster.state.policy.view_interval_s)
    assert cluster.views[-1].epoch == 5000
    cluster.do(beat("old-1", known_epoch=3, joined_epoch=2))
    cluster.wait(1.0, "new", "old-1")
    assert len(cluster.views) == 1, "the others of the earlier master have not reported yet"
    cluster.do(beat("old-2", known_epoch=3, joined_epoch=2))
    cluster.wait(cluster.state.policy.grace_s, "new", "old-1", "old-2")
    assert cluster.listed == ["new", "old-1", "old-2"]
    assert [view.epoch for view in cluster.views] == [5000, 5001]
