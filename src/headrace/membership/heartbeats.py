"""The changes by a heartbeat."""

from __future__ import annotations

from dataclasses import replace

from headrace.membership.events import Heartbeat
from headrace.membership.learning import conclude, learn
from headrace.membership.state import Level, Membership, Notice, Order, Outcome, Reply
from headrace.membership.weights import nearest_step, settled_weight
from headrace.membership.worker import GONE, Worker, WorkerState

_ORDERS = {
    WorkerState.DRAINING: Order.DRAIN,
    WorkerState.DRAINED: Order.STOP,
    WorkerState.LEFT: Order.STOP,
}


def hear(state: Membership, beat: Heartbeat, now_s: float) -> Outcome:
    """The worker is known, alive, and told what to do."""
    state = learn(state, beat, now_s)
    known = state.workers.get(beat.facts.id)
    if known is not None and _is_superseded(known, beat):
        return Outcome(state, reply=_reply(state, Order.SUPERSEDED))
    worker, notices = _newcomer(state, beat, now_s) if known is None else _known(state, known, beat, now_s)
    state = conclude(state.with_workers(worker), now_s)
    reply = _reply(state, _ORDERS.get(worker.state, Order.SERVE))
    return Outcome(state, notices=notices, reply=reply, save=_is_to_be_kept(known, worker))


def _is_superseded(known: Worker, beat: Heartbeat) -> bool:
    return known.state not in GONE and beat.incarnation < known.incarnation


def _newcomer(state: Membership, beat: Heartbeat, now_s: float) -> tuple[Worker, tuple[Notice, ...]]:
    is_learning = now_s < state.learning_until_s
    worker = Worker(
        facts=beat.facts,
        incarnation=beat.incarnation,
        state=WorkerState.DRAINING if is_learning and beat.draining else WorkerState.JOINING,
        weight=nearest_step(beat.facts.capacity_bytes),
        heard_s=now_s,
        asked_s=_interval_s(state, len(state.workers) + 1),
        joined_epoch=min(beat.joined_epoch, beat.known_epoch) if is_learning else 0,
        born_s=now_s,
    )
    worker = worker.settled(now_s)
    text = f"worker {beat.facts.id} joins from {beat.facts.address}"
    return worker, (Notice(Level.INFO, beat.facts.id, text),)


def _known(
    state: Membership, known: Worker, beat: Heartbeat, now_s: float
) -> tuple[Worker, tuple[Notice, ...]]:
    heard = replace(known, heard_s=now_s, asked_s=_interval_s(state, len(state.workers)))
    if known.state in GONE:
        return _returned(state, heard, beat, now_s)
    if known.is_listed and not beat.facts.ready:
        # Its cache is not counted yet, and readers cannot use it: that is silence, in other words.
        return known, ()
    if _has_lost_its_cache(known, beat):
        text = f"worker {beat.facts.id} came back with an empty cache"
        reborn = heard if known.state is WorkerState.DRAINING else heard.reborn(now_s, state.policy)
        return _updated(reborn, beat, now_s), (Notice(Level.WARNING, beat.facts.id, text),)
    notices: tuple[Notice, ...] = ()
    if known.state is WorkerState.SUSPECT:
        silence_s = now_s - known.heard_s
        text = f"worker {beat.facts.id} is heard again after {silence_s:.0f} s"
        notices = (Notice(Level.INFO, beat.facts.id, text),)
        heard = heard.with_state(WorkerState.ACTIVE)
    return _updated(heard, beat, now_s), notices


def _returned(
    state: Membership, heard: Worker, beat: Heartbeat, now_s: float
) -> tuple[Worker, tuple[Notice, ...]]:
    """A worker that was gone. One that was told to go does not come back by a heartbeat that was on its way."""
    if heard.state is not WorkerState.DEAD and beat.incarnation == heard.incarnation:
        return heard, ()
    text = f"worker {beat.facts.id}, which was {heard.state}, joins again from {beat.facts.address}"
    reborn = _updated(heard.reborn(now_s, state.policy), beat, now_s)
    return reborn, (Notice(Level.INFO, beat.facts.id, text),)


def _has_lost_its_cache(known: Worker, beat: Heartbeat) -> bool:
    is_restart = known.is_listed and beat.incarnation > known.incarnation
    return is_restart and known.facts.cached_bytes > 0 and beat.facts.cached_bytes == 0


def _updated(worker: Worker, beat: Heartbeat, now_s: float) -> Worker:
    weight = settled_weight(worker.weight, beat.facts.capacity_bytes)
    if _has_thought_better(worker, beat):
        worker = worker.with_state(WorkerState.ACTIVE)
    worker = replace(worker, facts=beat.facts, incarnation=beat.incarnation, weight=weight)
    return worker.settled(now_s)


def _has_thought_better(worker: Worker, beat: Heartbeat) -> bool:
    """A process that drained itself in order to end did end, and its successor stays."""
    is_restart = beat.incarnation > worker.incarnation and worker.state is WorkerState.DRAINING
    return is_restart and worker.facts.leaving and not beat.facts.leaving


def _is_to_be_kept(before: Worker | None, after: Worker) -> bool:
    return before is None or before.state is not after.state or before.incarnation != after.incarnation


def _interval_s(state: Membership, workers: int) -> float:
    return state.policy.interval_s(workers)


def _reply(state: Membership, order: Order) -> Reply:
    return Reply(order=order, interval_s=_interval_s(state, len(state.workers)), epoch=state.epoch)
