"""Who leads: a table of what is decided, and a simulation in which two must never lead at once."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.kube.election import (
    Sighting,
    Take,
    Terms,
    Wait,
    acts_until,
    next_action,
    released,
    sighted,
)

WALL = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAME = ("headrace-system", "headrace-operator")
TERMS = Terms(duration_s=15, renew_deadline_s=10, retry_s=2)


def lease(holder: str, **spec: Any) -> dict[str, Any]:
    said = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "r1", "leaseTransitions": 3}
    return {"kind": "Lease", "metadata": {"resourceVersion": "7", "labels": {"a": "b"}}, "spec": said | spec}


def decided(seen: Sighting, now_s: float, me: str = "me") -> Any:
    return next_action(seen, me, name=NAME, terms=TERMS, now_s=now_s, wall=WALL)


@pytest.mark.parametrize(
    ("seen", "now_s", "expected"),
    [
        pytest.param(lease("other"), 100.0, Wait(2.0), id="just seen"),
        pytest.param(lease("other"), 114.0, Wait(1.0), id="about to end"),
        pytest.param(
            lease("other", leaseDurationSeconds=60), 130.0, Wait(2.0), id="held for longer than ours"
        ),
        pytest.param(
            lease("other", leaseDurationSeconds=1), 114.5, Wait(0.5), id="held for shorter than ours"
        ),
    ],
)
def test_somebody_elses_lease_is_waited_for(seen: Any, now_s: float, expected: Wait) -> None:
    assert decided(Sighting(seen, 100.0), now_s) == expected


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_lease_that_ended_or_was_given_back_is_taken_and_counted(holder: str) -> None:
    action = decided(Sighting(lease(holder), 100.0), 115.0)
    assert isinstance(action, Take)
    spec = action.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("me", 4)
    assert spec["renewTime"] == spec["acquireTime"] == "2026-03-01T12:00:00.000000Z"
    assert action.lease["metadata"] == lease("")["metadata"], "written over what was read, and nothing else"


def test_what_was_given_back_is_taken_at_once() -> None:
    assert isinstance(decided(Sighting(lease(""), 100.0), 100.0), Take)


def test_renewing_changes_the_time_alone() -> None:
    action = decided(Sighting(lease("me", acquireTime="a"), 100.0), 101.0)
    assert isinstance(action, Take)
    assert action.lease == lease("me", acquireTime="a", renewTime="2026-03-01T12:00:00.000000Z")


def test_without_a_lease_one_is_made() -> None:
    action = decided(Sighting(None, 0.0), 0.0)
    assert isinstance(action, Take)
    assert action.lease["metadata"] == {"namespace": NAME[0], "name": NAME[1]}
    assert action.lease["spec"]["leaseTransitions"] == 0


def test_times_that_others_wrote_are_not_believed() -> None:
    """Written by a clock that is a year behind, or ahead: what counts is when we saw it change."""
    for year in (2025, 2027):
        foreign = lease("other", renewTime=f"{year}-03-01T12:00:00.000000Z")
        assert isinstance(decided(Sighting(foreign, 100.0), 114.9), Wait)
        assert isinstance(decided(Sighting(foreign, 100.0), 115.0), Take)


def test_a_sighting_is_as_old_as_the_last_renewal() -> None:
    first = sighted(None, lease("other"), 100.0)
    labelled = lease("other") | {"metadata": {"resourceVersion": "8"}}
    assert sighted(first, labelled, 105.0) == Sighting(labelled, 100.0), "a label is no renewal"
    assert sighted(first, lease("other", renewTime="r2"), 105.0).since_s == 105.0
    assert sighted(first, None, 105.0) == Sighting(None, 105.0)


def test_only_the_holder_gives_back() -> None:
    assert released(lease("other"), "me") is None
    given = released(lease("me"), "me")
    assert given is not None
    assert given["spec"]["holderIdentity"] == ""
    assert given["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize("terms", [(10, 10, 2), (15, 16, 2), (15, 10, 10), (15, 10, 0)])
def test_terms_that_are_not_safe_are_refused(terms: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError):
        Terms(*terms)


class Server:
    """A lease under optimistic concurrency."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self._versions = itertools.count(1)

    def write(self, wanted: dict[str, Any]) -> dict[str, Any] | None:
        present = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if wanted["metadata"].get("resourceVersion") != present:
            return None
        metadata = {**wanted["metadata"], "resourceVersion": str(next(self._versions))}
        self.lease = {**wanted, "metadata": metadata}
        return self.lease


class Candidate:
    """Does what `Leadership` does, with a clock and a network of its own; `acted` are its times as a leader."""

    def __init__(self, me: str, server: Server, delays: Iterator[float], clock: tuple[float, float]) -> None:
        self.me = me
        self.acted: list[tuple[float, float]] = []
        self._server = server
        self._delays = delays
        self._offset_s, self._rate = clock

    def local(self, true_s: float) -> float:
        return self._offset_s + true_s * self._rate

    def life(self) -> Iterator[float]:
        """Receives the true time at each step, and yields how long until the next."""
        seen: Sighting | None = None
        now = yield next(self._delays)
        while True:
            read = self._server.lease
            now = yield next(self._delays)  # the answer is under way
            seen = sighted(seen, read, self.local(now))
            wall = WALL + timedelta(seconds=self.local(now))
            action = next_action(seen, self.me, name=NAME, terms=TERMS, now_s=self.local(now), wall=wall)
            if isinstance(action, Wait):
                now = yield action.seconds / self._rate
                continue
            sent_s = self.local(now)
            now = yield next(self._delays)  # the request is under way
            written = self._server.write(action.lease)
            now = yield next(self._delays)  # the answer is, and may be too late to be of use
            if written is not None:
                seen = sighted(seen, written, self.local(now))
                until = (acts_until(sent_s, TERMS) - self._offset_s) / self._rate
                if now < until:
                    self.acted.append((now, until))
            now = yield TERMS.retry_s / self._rate


def simulate(candidates: list[Candidate], until_s: float) -> None:
    order = itertools.count()
    lives = [(each, each.life()) for each in candidates]
    queue = [(next(life), next(order), life) for _, life in lives]
    heapq.heapify(queue)
    while queue and queue[0][0] < until_s:
        now, _, life = heapq.heappop(queue)
        heapq.heappush(queue, (now + life.send(now), next(order), life))


@given(
    clocks=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.85, 1.15)), min_size=2, max_size=3),
    # Mostly quick, now and then as long as a pause of a whole machine.
    delays=st.lists(
        st.one_of(st.floats(0.0, 0.3), st.floats(0.0, 0.3), st.floats(0.0, 40.0)), min_size=20, max_size=200
    ),
)
@settings(max_examples=300, deadline=None)
def test_two_never_lead_at_once(clocks: list[tuple[float, float]], delays: list[float]) -> None:
    server = Server()
    drawn = itertools.cycle(delays)
    candidates = [Candidate(f"c{number}", server, drawn, clock) for number, clock in enumerate(clocks)]
    simulate(candidates, until_s=400.0)
    for one, other in itertools.combinations(candidates, 2):
        for begin, end in one.acted:
            for start, stop in other.acted:
                assert end <= start or stop <= begin, (one.me, begin, end, other.me, start, stop)


def test_in_the_simulation_somebody_leads_and_another_follows_when_it_is_gone() -> None:
    server = Server()
    quick = itertools.repeat(0.01)
    first = Candidate("first", server, quick, (0.0, 1.0))
    second = Candidate("second", server, itertools.chain([1.0], quick), (500.0, 1.0))
    simulate([first, second], until_s=60.0)
    assert len(first.acted) > 20
    assert not second.acted
    late = Candidate("late", server, quick, (-9.0, 1.0))
    simulate([late], until_s=60.0)
    assert late.acted[0][0] >= TERMS.duration_s
