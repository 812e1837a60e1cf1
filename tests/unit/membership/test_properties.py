"""What holds whatever happens, in whatever order."""

from __future__ import annotations

import dataclasses
import itertools

from clusters import Cluster, beat
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.errors import HeadraceError
from headrace.membership import (
    DrainAsked,
    DrainCancelled,
    Drained,
    Heartbeat,
    Left,
    Policy,
    Ticked,
    WorkerState,
    dump,
    restore,
    step,
)
from headrace.membership.view import ViewMember
from headrace.membership.weights import settled_weight

NAMES = [f"node-{number}" for number in range(5)]
names = st.sampled_from(NAMES)
LISTED = {WorkerState.ACTIVE, WorkerState.SUSPECT, WorkerState.DRAINING}


def heartbeats_of(name: str) -> st.SearchStrategy[list[Heartbeat]]:
    """What one worker says in its lives, in its order."""
    one = st.tuples(st.booleans(), st.booleans(), st.sampled_from([0, 10**12, 3 * 10**12]), st.integers(0, 2))
    return st.lists(one, max_size=4).map(
        lambda said: [
            beat(
                name,
                incarnation=count if restart else 0,
                ready=ready,
                capacity_bytes=size,
                cached_bytes=cached,
            )
            for count, (restart, ready, size, cached) in enumerate(said)
        ]
    )


def timeless(member: ViewMember) -> ViewMember:
    return dataclasses.replace(member, joined_epoch=0)


@given(spoken=st.tuples(*map(heartbeats_of, NAMES[:3])), order=st.randoms(use_true_random=False))
def test_order_in_which_workers_are_heard_does_not_matter(spoken, order) -> None:
    """But for epochs. What each of them says, it says in its order."""
    one_by_one = list(itertools.chain(*spoken))
    queues = [list(queue) for queue in spoken]
    mixed = []
    while any(queues):
        mixed.append(order.choice([queue for queue in queues if queue]).pop(0))
    views = []
    for events in (one_by_one, mixed):
        cluster = Cluster.start(hold_s=0)
        for event in events:
            cluster.do(event)
        cluster.wait(2.0)
        views.append([timeless(member) for member in cluster.views[-1].members] if cluster.views else [])
    assert views[0] == views[1]


@given(
    away_s=st.one_of(
        st.lists(st.floats(0.5, 40), min_size=1, max_size=60),
        st.builds(lambda seconds, times: [seconds] * times, st.sampled_from([2.0, 5.0, 17.0]), st.just(60)),
    ),
    loses_cache=st.booleans(),
)
@settings(deadline=None, max_examples=30)
def test_flapping_worker_causes_a_bounded_number_of_epochs(away_s: list[float], loses_cache: bool) -> None:
    """However fast it comes and goes: hasty lives wait 2, 4, … 60 s before they are listed."""
    cluster = Cluster.start("node-0", "node-1", "node-2")
    before, start_s = cluster.state.epoch, cluster.now_s
    for incarnation, seconds in enumerate(away_s, start=2):
        cluster.wait(seconds, "node-0", "node-1")
        cluster.do(beat("node-2", incarnation=incarnation, cached_bytes=0 if loses_cache else 5))
        cluster.do(beat("node-2", incarnation=incarnation))
    lives = 2 + 5 + (cluster.now_s - start_s) / 60
    assert cluster.state.epoch - before <= 2 * lives


@given(weight=st.integers(0, 1 << 62), capacity=st.integers(0, 1 << 62), noise=st.floats(0.96, 1.04))
def test_settled_weight_is_near_the_capacity_and_stays(weight: int, capacity: int, noise: float) -> None:
    settled = settled_weight(weight, capacity)
    assert (settled == 0) == (capacity == 0)
    assert abs(settled - capacity) <= 0.08 * capacity + 1
    assert settled_weight(settled, capacity) == settled
    if settled != weight and capacity > 1000:
        assert settled_weight(settled, int(capacity * noise)) == settled


class Lives(RuleBasedStateMachine):
    """Five workers that do what they like, people that order what they like, and a master that dies now and then."""

    @initialize(replicas=st.integers(1, 3), doubt_s=st.sampled_from([0.0, 60.0]))
    def begin(self, replicas: int, doubt_s: float) -> None:
        self.cluster = Cluster.start(replicas=replicas, doubt_s=doubt_s)
        self.incarnations = dict.fromkeys(NAMES, 1)
        self.promised = 0

    @rule(name=names, cached=st.integers(0, 2), ready=st.booleans(), leaving=st.booleans())
    def worker_reports(self, name: str, cached: int, ready: bool, leaving: bool) -> None:
        incarnation = self.incarnations[name]
        self.cluster.do(
            beat(name, incarnation=incarnation, cached_bytes=cached, ready=ready, leaving=leaving)
        )
        assert self.cluster.state.workers[name].incarnation <= incarnation

    @rule(name=names)
    def worker_restarts(self, name: str) -> None:
        self.incarnations[name] += 1

    @rule(name=names)
    def worker_leaves(self, name: str) -> None:
        self.cluster.do(Left(name, self.incarnations[name]))

    @rule(name=names)
    def worker_is_drained(self, name: str) -> None:
        self.cluster.do(Drained(name))

    @rule(name=names, least=st.integers(0, 3))
    def person_asks_to_drain(self, name: str, least: int) -> None:
        active = self.cluster.state.count(WorkerState.ACTIVE)
        try:
            self.cluster.do(DrainAsked(name, least_active=least))
        except HeadraceError as refused:
            assert refused.hint
            assert self.cluster.state.count(WorkerState.ACTIVE) == active
        else:
            assert self.cluster.state.count(WorkerState.ACTIVE) >= min(least, active)

    @rule(name=names)
    def person_cancels(self, name: str) -> None:
        try:
            self.cluster.do(DrainCancelled(name))
        except HeadraceError as refused:
            assert refused.hint

    @rule(seconds=st.integers(1, 30), alive=st.booleans())
    def time_passes(self, seconds: int, alive: bool) -> None:
        self.cluster.wait(seconds, *(self.cluster.state.workers if alive else ()))

    @rule()
    def all_workers_fall_silent(self) -> None:
        policy = self.cluster.state.policy
        self.cluster.wait(policy.grace_s + policy.dead_s + policy.doubt_s + 2)
        assert not self.cluster.state.count(*LISTED)

    @precondition(lambda self: self.cluster.state.workers)
    @rule()
    def master_restarts(self) -> None:
        before = self.cluster.state
        self.cluster.now_s = 3.0
        outcome = restore(dump(before), before.policy, 3.0)
        assert (outcome.view is not None) == bool(self.cluster.views)
        self.cluster.state = outcome.state
        if outcome.view is not None:
            assert outcome.state.epoch > before.epoch
            self.cluster.views.append(outcome.view)

    @invariant()
    def settled_view_is_what_is_known(self) -> None:
        """A second later readers know all that matters; time alone changes nothing for those who were just heard."""
        if not hasattr(self, "cluster"):
            return
        state = self.cluster.state
        later = step(state, Ticked(), self.cluster.now_s + 1.0).state
        if not self.cluster.views:
            assert not state.count(*LISTED) or later.view is not None
            return
        shown = later.view or state.view
        assert shown is not None
        listed = {name for name, worker in later.workers.items() if worker.state in LISTED}
        assert {member.id for member in shown.members} == listed
        assert shown.epoch == later.epoch


TestLives = Lives.TestCase
TestLives.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)


def test_policy_with_impatience_in_the_wrong_order_is_refused() -> None:
    for wrong in ({"suspect_s": 20}, {"heartbeat_s": 6}, {"replicas": 0}):
        try:
            Policy(**wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)
