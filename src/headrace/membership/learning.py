"""The knowledge of a master that began with nothing: what it learns of those before it, and whom it has no news for
meanwhile.

Its members go by a view of an earlier master, which is better than none and better than half of one. So it publishes
nothing that they would take until all workers of that view have reported, or have had the time to.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.membership.events import Followed, Heartbeat
from headrace.membership.state import Membership, Outcome

MOST_AHEAD = 1 << 32
"""Readers are believed epochs up to so much later than the first one of this master: clocks may be weeks apart."""


def learn(state: Membership, beat: Heartbeat, now_s: float) -> Membership:
    """Learns earlier views from a worker's report. A later epoch than the master's shows that its state was lost."""
    if now_s < state.learning_until_s and beat.known_epoch and not state.is_own(beat.known_epoch):
        # There was an earlier master: its other workers are given the time to report before they are moved away from.
        state = replace(
            _expecting(state, beat.known_epoch, beat.known_members), quiet_until_s=state.learning_until_s
        )
    if beat.known_epoch <= state.epoch:
        return state
    return replace(state, epoch=beat.known_epoch, view=None, is_pending=True)


def follow(state: Membership, event: Followed, now_s: float) -> Outcome:
    """Somebody else knows of an earlier master, and its workers are given a moment to say so themselves.

    They may be no more, and nobody is to wait for them for long. Epochs are not to go back for readers, either, nor to
    be driven beyond all bounds by one of them.
    """
    if now_s >= state.learning_until_s or event.epoch == 0 or state.is_own(event.epoch):
        return Outcome(state)
    state = replace(
        _expecting(state, event.epoch, 0), quiet_until_s=max(state.quiet_until_s, _a_moment_s(state))
    )
    if state.epoch < event.epoch <= state.first_epoch + MOST_AHEAD:
        is_pending = state.is_pending or state.published_epoch > 0
        state = replace(state, epoch=event.epoch, view=None, is_pending=is_pending)
    return Outcome(state)


def conclude(state: Membership, now_s: float) -> Membership:
    """Ends the learning when everybody is there whom the newest view of earlier masters lists.

    Not before all who are alive have had a moment to tell of a newer one.
    """
    if not state.expected_members or now_s < _a_moment_s(state):
        return state
    found = sum(
        worker.is_listed and worker.joined_epoch > 0 and not state.is_own(worker.joined_epoch)
        for worker in state.workers.values()
    )
    if found < state.expected_members:
        return state
    over = float("-inf")
    return replace(state, learning_until_s=over, quiet_until_s=over, expected_epoch=0, expected_members=0)


def is_news(state: Membership, published_epoch: int, known_epoch: int, now_s: float) -> bool:
    """True if the view that was published last is to be told to somebody who goes by one of `known_epoch`.

    Not before there is one. While workers of an earlier master are still to report, those who go by its view keep it.
    """
    if published_epoch in (0, known_epoch):
        return False
    return known_epoch == 0 or state.is_own(known_epoch) or now_s >= state.quiet_until_s


def _expecting(state: Membership, epoch: int, members: int) -> Membership:
    """The state with the newest view of an earlier master that is heard of; 0 members where nobody says how many."""
    if (epoch, members) <= (state.expected_epoch, state.expected_members):
        return state
    return replace(state, expected_epoch=epoch, expected_members=members)


def _a_moment_s(state: Membership) -> float:
    """When everybody who is alive will have reported once, since this master began."""
    moment_s = min(state.policy.suspect_s, state.policy.grace_s)
    return state.learning_until_s - state.policy.grace_s + moment_s
