"""The orders of people and workers to the membership: drain, stay, leave."""

from __future__ import annotations

from headrace.errors import BusyError, ConfigError
from headrace.membership.events import DrainAsked, DrainCancelled, Drained, Left
from headrace.membership.state import Level, Membership, Notice, Outcome
from headrace.membership.worker import GONE, Worker, WorkerState


def drain(state: Membership, order: DrainAsked) -> Outcome:
    """The worker owns nothing any more and hands over what it has.

    Raises `ConfigError` for a worker that is not there, `BusyError` when too few others are well.
    """
    worker = _present(state, order.worker)
    if worker.state is WorkerState.DRAINING:
        return Outcome(state)
    if worker.state is WorkerState.JOINING:
        return _moved(state, worker, WorkerState.DRAINED, "had nothing yet and is drained")
    left = state.count(WorkerState.ACTIVE) - (worker.state is WorkerState.ACTIVE)
    if left < order.least_active:
        message = (
            f"draining {order.worker} would leave {left} active workers, and {order.least_active} are to stay"
        )
        raise BusyError.of(message, hint="start another worker first")
    return _moved(state, worker, WorkerState.DRAINING, "is being drained")


def stay(state: Membership, order: DrainCancelled) -> Outcome:
    """The worker owns its share again. Raises `ConfigError` unless it is being drained."""
    worker = _present(state, order.worker)
    if worker.state is not WorkerState.DRAINING:
        raise ConfigError.of(
            f"worker {order.worker} is {worker.state}", hint="only a draining worker can be kept"
        )
    if worker.facts.leaving:
        raise ConfigError.of(
            f"worker {order.worker} is ending by itself", hint="start it again when it has ended"
        )
    return _moved(state, worker, WorkerState.ACTIVE, "stays: its drain was cancelled")


def finish_drain(state: Membership, event: Drained) -> Outcome:
    """The worker leaves the view. Nothing happens if its drain was cancelled meanwhile."""
    worker = state.workers.get(event.worker)
    if worker is None or worker.state is not WorkerState.DRAINING:
        return Outcome(state)
    return _moved(state, worker, WorkerState.DRAINED, "has handed over what it had: taken out of the view")


def leave(state: Membership, event: Left) -> Outcome:
    """The worker leaves the view at once. Nothing happens if a younger process has its name."""
    worker = state.workers.get(event.worker)
    if worker is None or worker.state in GONE or event.incarnation < worker.incarnation:
        return Outcome(state)
    return _moved(state, worker, WorkerState.LEFT, "has left")


def _present(state: Membership, name: str) -> Worker:
    worker = state.workers.get(name)
    if worker is None or worker.state in GONE:
        fault = "is not a worker of this cluster" if worker is None else f"is {worker.state} already"
        raise ConfigError.of(f"'{name}' {fault}", hint="`headrace status --cluster URL` lists the workers")
    return worker


def _moved(state: Membership, worker: Worker, to: WorkerState, words: str) -> Outcome:
    notice = Notice(Level.INFO, worker.facts.id, f"worker {worker.facts.id} {words}")
    return Outcome(state.with_workers(worker.with_state(to)), notices=(notice,), save=True)
