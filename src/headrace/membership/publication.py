"""The time at which a new view is due, and its content."""

from __future__ import annotations

from dataclasses import replace

from headrace.membership.state import Membership, Outcome
from headrace.membership.view import View


def publish(outcome: Outcome, now_s: float) -> Outcome:
    """The outcome with a new view and epoch, if readers have to know and the last view is old enough."""
    state = outcome.state
    earliest_s = max(state.published_s + state.policy.view_interval_s, state.quiet_until_s)
    if not state.is_pending or now_s < earliest_s:
        return outcome
    if state.published_epoch == 0 and not any(worker.is_listed for worker in state.workers.values()):
        # A master that knows nobody yet has nothing to say, whatever it has heard of earlier ones.
        return outcome
    if state.view is not None and _view(state).places_like(state.view):
        return replace(outcome, state=replace(state, is_pending=False))
    return publish_now(outcome, now_s)


def publish_now(outcome: Outcome, now_s: float) -> Outcome:
    """The outcome with a new view and epoch."""
    epoch = max(outcome.state.epoch + 1, outcome.state.first_epoch)
    state = _listed_since(outcome.state, epoch)
    state = replace(state, epoch=epoch, published_epoch=epoch, is_pending=False, published_s=now_s)
    state = replace(state, view=_view(state))
    reply = outcome.reply and replace(outcome.reply, epoch=epoch)
    return replace(outcome, state=state, view=state.view, reply=reply, save=True)


def _listed_since(state: Membership, epoch: int) -> Membership:
    """The state with `epoch` as the first one of those that are listed for the first time."""
    new = {
        name: replace(worker, joined_epoch=epoch)
        for name, worker in state.workers.items()
        if worker.is_listed and worker.joined_epoch == 0
    }
    return replace(state, workers={**state.workers, **new}) if new else state


def _view(state: Membership) -> View:
    rows = (state.workers[name].listing() for name in sorted(state.workers))
    members = tuple(row for row in rows if row is not None)
    return View(epoch=state.epoch, replicas=state.policy.replicas, members=members)
