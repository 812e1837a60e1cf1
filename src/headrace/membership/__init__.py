"""The workers of a cluster, and the view that readers place data by: the decisions of a master, without its I/O.

`step(state, event, now_s)` is a pure function: heartbeats, orders and the passing of time go in; the next state, a
new view, a reply and words for people come out. Time is any clock that does not jump, in seconds. Nothing here opens a
file or a socket, and nothing knows the engine.
"""

from __future__ import annotations

from headrace.membership.changes import ViewChange, apply_change, change_between
from headrace.membership.events import (
    MOST_EPOCH,
    DrainAsked,
    DrainCancelled,
    Drained,
    Event,
    Followed,
    Heartbeat,
    Left,
    Ticked,
)
from headrace.membership.facts import MemberFacts
from headrace.membership.learning import is_news
from headrace.membership.machine import step
from headrace.membership.policy import Policy
from headrace.membership.serialization import dump, restore
from headrace.membership.state import Level, Membership, Notice, Order, Outcome, Reply, fresh
from headrace.membership.view import View, ViewMember
from headrace.membership.worker import Worker, WorkerState

__all__ = [
    "MOST_EPOCH",
    "DrainAsked",
    "DrainCancelled",
    "Drained",
    "Event",
    "Followed",
    "Heartbeat",
    "Left",
    "Level",
    "MemberFacts",
    "Membership",
    "Notice",
    "Order",
    "Outcome",
    "Policy",
    "Reply",
    "Ticked",
    "View",
    "ViewChange",
    "ViewMember",
    "Worker",
    "WorkerState",
    "apply_change",
    "change_between",
    "dump",
    "fresh",
    "is_news",
    "restore",
    "step",
]
