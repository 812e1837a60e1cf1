"""The one entry to the state machine."""

from __future__ import annotations

from dataclasses import replace

from headrace.membership import heartbeats, learning, orders, silence
from headrace.membership.events import (
    DrainAsked,
    DrainCancelled,
    Drained,
    Event,
    Followed,
    Heartbeat,
    Left,
    Ticked,
)
from headrace.membership.publication import publish
from headrace.membership.state import Membership, Outcome

Order = DrainAsked | DrainCancelled | Drained | Left


def step(state: Membership, event: Event, now_s: float) -> Outcome:
    """The outcome of `event` at `now_s` for `state`. Raises `ConfigError` or `BusyError` for orders that cannot be
    followed.

    A time before the latest one known counts as that one.
    """
    now_s = max(now_s, state.now_s)
    state, notices = silence.forgive_own_sleep(state, now_s)
    outcome = _apply(replace(state, now_s=now_s), event, now_s)
    return publish(replace(outcome, notices=notices + outcome.notices), now_s)


def _apply(state: Membership, event: Event, now_s: float) -> Outcome:
    match event:
        case Heartbeat():
            return heartbeats.hear(state, event, now_s)
        case Followed():
            return learning.follow(state, event, now_s)
        case Ticked():
            return silence.pass_time(state, now_s)
        case _:
            return _ordered(state, event)


def _ordered(state: Membership, event: Order) -> Outcome:
    """What people, and workers that end, want."""
    match event:
        case DrainAsked():
            return orders.drain(state, event)
        case DrainCancelled():
            return orders.stay(state, event)
        case Drained():
            return orders.finish_drain(state, event)
        case Left():
            return orders.leave(state, event)
