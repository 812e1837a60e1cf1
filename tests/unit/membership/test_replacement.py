"""A master that is replaced: whoever goes by a view keeps it until the next master knows as much as the last one."""

from __future__ import annotations

from dataclasses import dataclass

from clusters import Cluster, beat
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.membership import (
    Followed,
    Level,
    Order,
    Policy,
    Ticked,
    View,
    WorkerState,
    dump,
    fresh,
    is_news,
    restore,
    step,
)

GRACE_S = 30.0
MOMENT_S = 5.0


def successor(first_epoch: int = 5000) -> Cluster:
    """A master that begins with nothing."""
    return Cluster(fresh(Policy(), 1000.0, first_epoch=first_epoch))


def news_of(cluster: Cluster, known_epoch: int) -> View | None:
    """What somebody is told who goes by the view of that epoch."""
    view = cluster.views[-1] if cluster.views else None
    published = view.epoch if view else 0
    return view if is_news(cluster.state, published, known_epoch, cluster.now_s) else None


def test_a_master_without_a_view_has_news_for_nobody() -> None:
    cluster = successor()
    assert [news_of(cluster, epoch) for epoch in (0, 3, 5000, 1 << 52)] == [None] * 4


def test_who_goes_by_an_earlier_view_is_not_told_of_the_few_that_report_first() -> None:
    """A worker that began anew has nothing to tell of earlier masters, and may be heard before all others."""
    cluster = successor()
    cluster.do(beat("new"))
    assert cluster.listed == ["new"]
    cluster.do(Followed(epoch=900))
    assert news_of(cluster, 900) is None
    assert news_of(cluster, 0) == cluster.views[-1], "it is better than nothing"
    cluster.do(beat("old-1", known_epoch=900, joined_epoch=800, known_members=2))
    cluster.wait(MOMENT_S + 1, "new", "old-1")
    assert news_of(cluster, 900) is None
    cluster.do(beat("old-2", known_epoch=900, joined_epoch=801, known_members=2))
    assert cluster.listed == ["new", "old-1", "old-2"]
    assert news_of(cluster, 900) == cluster.views[-1] == news_of(cluster, 5000)


def test_readers_alone_hold_a_view_back_for_a_moment_only() -> None:
    """What they go by may list workers that are no more."""
    cluster = successor()
    cluster.do(Followed(epoch=900))
    cluster.do(beat("new"))
    assert not cluster.views
    cluster.wait(MOMENT_S, "new")
    assert news_of(cluster, 900) == cluster.views[-1]


def test_a_view_is_due_as_soon_as_all_are_there_whom_the_newest_one_lists() -> None:
    cluster = successor()
    cluster.do(beat("a", known_epoch=700, joined_epoch=1, known_members=1))
    cluster.wait(1.0, "a")
    for name in "bc":
        cluster.do(beat(name, known_epoch=900, joined_epoch=2, known_members=3))
    assert not cluster.views, "there may be newer views yet"
    cluster.wait(MOMENT_S, *"abc")
    assert cluster.listed == ["a", "b", "c"]
    assert cluster.now_s < 1000.0 + GRACE_S
    assert [member.joined_epoch for member in cluster.views[0].members] == [1, 2, 2]


def test_a_view_that_nobody_has_counted_is_waited_for() -> None:
    """A reader knows a newer one than the workers that have reported."""
    cluster = successor()
    cluster.do(Followed(epoch=900))
    cluster.do(beat("a", known_epoch=700, joined_epoch=1, known_members=1))
    cluster.wait(GRACE_S - 1, "a")
    assert not cluster.views
    cluster.wait(1.0, "a")
    assert cluster.listed == ["a"]


def test_epochs_of_a_master_whose_clock_is_behind_go_on_from_those_of_its_readers() -> None:
    cluster = successor()
    cluster.do(Followed(epoch=6000))
    cluster.do(beat("new"))
    cluster.wait(MOMENT_S, "new")
    assert cluster.views[-1].epoch == 6001
    # Once it knows its cluster, nobody drives its epochs on.
    cluster.wait(GRACE_S, "new")
    cluster.do(Followed(epoch=7000))
    cluster.wait(2.0, "new")
    assert cluster.views[-1].epoch == 6001


def test_no_reader_drives_epochs_beyond_all_bounds() -> None:
    cluster = successor()
    cluster.do(Followed(epoch=1 << 53))
    cluster.do(beat("new"))
    cluster.wait(MOMENT_S, "new")
    assert cluster.views[-1].epoch == 5000


def test_a_worker_that_hands_over_goes_on_with_it_under_a_master_that_did_not_order_it() -> None:
    cluster = successor()
    reply = cluster.hear(beat("a", known_epoch=900, joined_epoch=1, known_members=2, draining=True))
    assert reply.order is Order.DRAIN
    cluster.do(beat("b", known_epoch=900, joined_epoch=1, known_members=2))
    cluster.wait(MOMENT_S, "a", "b")
    assert [member.state for member in cluster.views[-1].members] == ["draining", "active"]
    # Later on it is the master who knows.
    assert cluster.hear(beat("late", draining=True)).order is Order.SERVE


def test_a_master_that_begins_and_is_started_again_still_waits_for_the_others() -> None:
    cluster = successor()
    cluster.do(beat("a", known_epoch=900, joined_epoch=1, known_members=2))
    cluster.wait(2.0, "a")
    outcome = restore(dump(cluster.state), Policy(), 7.0, first_epoch=6000)
    assert outcome.view is None
    again = Cluster(outcome.state, now_s=7.0)
    again.wait(MOMENT_S + 1, "a")
    assert not again.views
    again.do(beat("b", known_epoch=900, joined_epoch=1, known_members=2))
    again.wait(GRACE_S, "a", "b")
    assert again.listed == ["a", "b"] and again.views[0].epoch == 6000


def test_a_master_that_has_heard_of_nobody_and_is_started_again_publishes_nothing() -> None:
    outcome = restore(dump(successor().state), Policy(), 7.0, first_epoch=6000)
    assert outcome.view is None and outcome.state == fresh(Policy(), 7.0, first_epoch=6000)


def test_a_master_that_knows_an_epoch_but_no_worker_publishes_nothing() -> None:
    cluster = successor()
    cluster.do(beat("a", known_epoch=9000, joined_epoch=1, ready=False))
    cluster.wait(GRACE_S + MOMENT_S, "a")
    assert not cluster.views
    assert cluster.state_of("a") is WorkerState.JOINING
    assert not [notice for notice in cluster.notices if notice.level is Level.WARNING]


NAMES = [f"node-{number}" for number in range(4)]


@dataclass
class Follower:
    """A member: what it goes by, and keeps."""

    epoch: int = 0
    members: frozenset[str] = frozenset()
    joined: int = 0

    def take(self, view: View, name: str = "") -> None:
        rows = {member.id: member.joined_epoch for member in view.members}
        self.epoch, self.members, self.joined = view.epoch, frozenset(rows), rows.get(name, 0)


class Replacements(RuleBasedStateMachine):
    """Masters that come and go, with their state and without, while workers that never die report to them."""

    @initialize()
    def begin(self) -> None:
        self.clock_s, self.incarnations = 1000.0, dict.fromkeys(NAMES, 1)
        self.workers = {name: Follower() for name in NAMES[:2]}
        self.readers = [Follower(), Follower()]
        self.kept: str | None = None
        self.view: View | None = None
        self.a_master_begins(lost=True)
        self.time_passes(2)

    def _step(self, event) -> None:
        outcome = step(self.state, event, self.clock_s)
        self.state = outcome.state
        if outcome.save:
            self.kept = dump(self.state)
        self.view = outcome.view or self.view

    def _tell(self, follower: Follower, name: str = "") -> None:
        published = self.view.epoch if self.view else 0
        if not is_news(self.state, published, follower.epoch, self.clock_s):
            return
        assert self.view is not None and self.view.epoch > follower.epoch, "epochs went back"
        lost = follower.members - {member.id for member in self.view.members}
        assert not lost, f"workers that live were taken away: {lost}"
        follower.take(self.view, name)

    @rule(lost=st.booleans())
    def a_master_begins(self, lost: bool) -> None:
        """The one before it is gone, if there was one."""
        first_epoch = int(self.clock_s * 1000)
        self.clock_s += 0.01
        self.view = None
        if lost or self.kept is None:
            self.state, self.kept = fresh(Policy(), self.clock_s, first_epoch), None
            return
        outcome = restore(self.kept, Policy(), self.clock_s, first_epoch)
        self.state, self.view = outcome.state, outcome.view
        self.kept = dump(self.state)

    @rule(name=st.sampled_from(NAMES))
    def a_worker_reports(self, name: str) -> None:
        mine = self.workers.setdefault(name, Follower())
        self._step(
            beat(
                name,
                incarnation=self.incarnations[name],
                known_epoch=mine.epoch,
                joined_epoch=mine.joined,
                known_members=len(mine.members),
            )
        )
        self._tell(mine, name)

    @rule(number=st.integers(0, 1))
    def a_reader_polls(self, number: int) -> None:
        self._step(Followed(epoch=self.readers[number].epoch))
        self._tell(self.readers[number])

    @rule(name=st.sampled_from(NAMES[:2]))
    def a_worker_starts_again(self, name: str) -> None:
        self.incarnations[name] += 1

    @rule(seconds=st.integers(1, 40))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock_s += 1.0
            for name in list(self.workers):
                self.a_worker_reports(name)
            self._step(Ticked())

    @rule()
    def in_the_end_all_know_all(self) -> None:
        self.time_passes(int(GRACE_S) + 2)
        for number, reader in enumerate(self.readers):
            self.a_reader_polls(number)
            assert reader.members == frozenset(self.workers)

    @invariant()
    def nobody_who_knew_workers_knows_none(self) -> None:
        if hasattr(self, "readers"):
            assert all(reader.members for reader in self.readers if reader.epoch)


TestReplacements = Replacements.TestCase
TestReplacements.settings = settings(deadline=None, max_examples=30, stateful_step_count=20)
