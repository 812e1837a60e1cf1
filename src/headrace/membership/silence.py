"""The changes by the passing of time: who is suspected, dead, forgotten; who has waited long enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.membership.state import Level, Membership, Notice, Outcome
from headrace.membership.worker import LISTED, Worker, WorkerState


def pass_time(state: Membership, now_s: float) -> Outcome:
    """The state at `now_s`, given that nobody was heard since the last event."""
    state, notices = _doubt_oneself(state, now_s)
    changed: list[Worker] = []
    forgotten: set[str] = set()
    for name, worker in state.workers.items():
        after = _aged(state, worker, now_s)
        if after is None:
            forgotten.add(name)
        elif after is not worker:
            changed.append(after)
            notices += tuple(_told(worker, after, now_s))
    if not changed and not forgotten:
        return Outcome(state, notices=notices)
    return Outcome(state.with_workers(*changed).without(forgotten), notices=notices, save=True)


def forgive_own_sleep(state: Membership, now_s: float) -> tuple[Membership, tuple[Notice, ...]]:
    """A master that was stopped itself heard nobody: that says nothing about the workers."""
    slept_s = now_s - state.now_s
    if slept_s <= state.policy.suspect_s or not state.workers:
        return state, ()
    workers = {
        name: replace(worker, heard_s=worker.heard_s + slept_s) for name, worker in state.workers.items()
    }
    text = f"the master did not run for {slept_s:.0f} s: that silence does not count"
    return replace(state, workers=workers), (Notice(Level.WARNING, None, text),)


def _doubt_oneself(state: Membership, now_s: float) -> tuple[Membership, tuple[Notice, ...]]:
    listed = [worker for worker in state.workers.values() if worker.state in LISTED]
    silent = sum(_silence_s(worker, now_s) > state.policy.dead_after_s(worker.asked_s) for worker in listed)
    is_doubting = 2 * silent > len(listed) and state.policy.doubt_s > 0
    if is_doubting == state.is_doubting:
        return state, ()
    notices: tuple[Notice, ...] = ()
    if is_doubting:
        text = f"{silent} of {len(listed)} workers are silent: perhaps the master is cut off, so they stay in the view"
        notices = (Notice(Level.WARNING, None, f"{text} for {state.policy.doubt_s:g} s more"),)
    return replace(state, is_doubting=is_doubting), notices


def _aged(state: Membership, worker: Worker, now_s: float) -> Worker | None:
    """The worker after its silence; itself if nothing changes, `None` to forget it."""
    silence_s = _silence_s(worker, now_s)
    dead_after_s = state.policy.dead_after_s(worker.asked_s)
    if worker.is_listed:
        if silence_s > dead_after_s + (state.policy.doubt_s if state.is_doubting else 0.0):
            return worker.with_state(WorkerState.DEAD)
        is_odd = silence_s > state.policy.suspect_after_s(worker.asked_s)
        return worker.with_state(WorkerState.SUSPECT) if is_odd and _is_well(worker) else worker
    if worker.state is WorkerState.JOINING:
        # Dead, not forgotten: how often it began anew is to be remembered.
        return worker.settled(now_s) if silence_s <= dead_after_s else worker.with_state(WorkerState.DEAD)
    return worker if silence_s <= state.policy.forget_s else None


def _is_well(worker: Worker) -> bool:
    return worker.state is WorkerState.ACTIVE


def _silence_s(worker: Worker, now_s: float) -> float:
    return now_s - worker.heard_s


def _told(before: Worker, after: Worker, now_s: float) -> Iterator[Notice]:
    name = after.facts.id
    silent = f"worker {name} is silent for {_silence_s(after, now_s):.0f} s"
    if after.state is WorkerState.DEAD:
        end = "taken out of the view" if before.is_listed else "it never got into the view"
        yield Notice(Level.WARNING, name, f"{silent}: {end}")
    elif after.state is WorkerState.SUSPECT:
        yield Notice(Level.WARNING, name, f"{silent}: suspected, still in the view")
    elif before.state is WorkerState.JOINING:
        yield Notice(Level.INFO, name, f"worker {name} is listed now, having started anew too often before")
