"""The roles to run for one dataset and its runtime, and their status. Pure: see the package."""

from __future__ import annotations

from datetime import datetime

from headrace.api.dataset import Dataset
from headrace.api.kinds import Runtime, kind_of
from headrace.plan.dataset_status import Findings, was_bound
from headrace.plan.declared import Declared, is_leaving
from headrace.plan.mounting import users_text
from headrace.plan.node_names import shown_names
from headrace.plan.observed import Observed
from headrace.plan.outcome import AT_ONCE_S, IN_USE_S, Decision, Finalizers, Plan, outcome
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.referring import plan_reference, refers_only
from headrace.plan.runtime_status import Workforce
from headrace.plan.serving import plan_service
from headrace.plan.steps import NO_STEPS, teardown_steps
from headrace.plan.volume import volume_of

__all__ = ["Finalizers", "Plan", "plan", "plan_abandoned", "plan_spare"]


def plan(declared: Declared, observed: Observed, now: datetime) -> Plan:
    """The wanted roles and the next steps, for a dataset, its runtime, or both."""
    dataset, runtime = declared.dataset, declared.runtime
    if dataset is None:
        missing = wait(Reason.DATASET_MISSING, f"no dataset {declared.key}")
        held = Decision(declared, None, _dismissed(declared, observed, missing), holds=True)
        return outcome(held, now) if observed.users else _ending(declared, observed, missing, now)
    terminating = _in_use(declared, observed)
    if refers_only(declared) and not (is_leaving(dataset) and terminating is None):
        return plan_reference(declared, dataset, observed, now, terminating if is_leaving(dataset) else None)
    leaving = is_leaving(dataset) or is_leaving(runtime)
    if leaving and terminating is None:
        return _ending(declared, observed, _deleting(declared, observed), now)
    if runtime is None:
        waiting = wait(Reason.RUNTIME_MISSING, f"no runtime is named {declared.key}")
        return (
            _kept(declared, dataset, observed, waiting, now)
            if terminating
            else _ending(declared, observed, waiting, now)
        )
    return plan_service(
        declared, dataset, runtime, observed, now, terminating=terminating if leaving else None
    )


def plan_abandoned(observed: Observed) -> Plan:
    """The plan for what runs although neither a dataset nor a runtime is declared any more: it ends, once nobody
    reads it.
    """
    used = bool(observed.users)
    return Plan(
        roles=(),
        steps=NO_STEPS if used else teardown_steps(observed),
        volume=None,
        dataset_status=None,
        runtime_status=None,
        events=(),
        finalizers=Finalizers(),
        requeue_after_s=IN_USE_S if used else AT_ONCE_S,
        holds=used,
    )


def plan_spare(runtime: Runtime, serving: Runtime, now: datetime) -> Plan:
    """The plan of a runtime whose dataset is served by another one of the same name: it runs nothing, and says so."""
    declared = Declared(None, runtime)
    taken = wait(Reason.DATASET_TAKEN, f"dataset {declared.key} is served by its {serving.kind}")
    return _ending(declared, Observed(), taken, now)


def _in_use(declared: Declared, observed: Observed) -> Wait | None:
    """Why the roles may not be ended."""
    if observed.users:
        return wait(Reason.VOLUME_IN_USE, f"the volume of {declared.key} is in use by {users_text(observed)}")
    if observed.referrers and is_leaving(declared.dataset):
        names = ", ".join(sorted(observed.referrers))
        return wait(Reason.DATASET_REFERRED, f"{declared.key} is referred to by {names}")
    return None


def _deleting(declared: Declared, observed: Observed) -> Wait:
    runtime = None if is_leaving(declared.dataset) else declared.runtime
    what = f"the {kind_of(runtime).name} of {declared.key}" if runtime else declared.key
    return wait(Reason.DELETING, f"{what} is being deleted{_left_text(observed)}")


def _left_text(observed: Observed) -> str:
    """Where something is left of it, once nothing of it runs, and why that does not go."""
    if observed.roles or not observed.sweeping:
        return ""
    away = {node.name: "the node is not ready" for node in observed.nodes if not node.is_ready}
    faults = ((node, why or away.get(node, "")) for node, why in observed.sweeping.items())
    told = next((f"; on {node} {why}" for node, why in faults if why), "")
    return f", and what it left on {shown_names(observed.sweeping)} is being taken away{told}"


def _kept(declared: Declared, dataset: Dataset, observed: Observed, waiting: Wait, now: datetime) -> Plan:
    """Roles whose runtime is gone go on while somebody uses them."""
    leaving = is_leaving(dataset)
    terminating = _in_use(declared, observed)
    kept = bool(observed.roles) and was_bound(declared.dataset_status)
    findings = Findings(
        dataset, observed, waiting=waiting, terminating=terminating if leaving or observed.roles else None
    )
    volume = volume_of(dataset) if kept else None
    return outcome(Decision(declared, findings, None, volume=volume, holds=True), now)


def _ending(declared: Declared, observed: Observed, waiting: Wait, now: datetime) -> Plan:
    """Everything ends, in its order; then the volume and the finalizers of what leaves may go."""
    steps = teardown_steps(observed)
    gone = not observed.roles
    dataset, runtime = declared.dataset, declared.runtime
    stays = dataset is not None and not gone and was_bound(declared.dataset_status)
    decision = Decision(
        declared=declared,
        findings=Findings(dataset, observed, runtime=runtime, waiting=waiting) if dataset else None,
        workforce=_dismissed(declared, observed, waiting),
        steps=steps if observed.roles else NO_STEPS,
        volume=volume_of(dataset) if dataset is not None and stays else None,
        dataset_leaves=gone and is_leaving(dataset),
        runtime_leaves=gone and is_leaving(runtime),
    )
    return outcome(decision, now)


def _dismissed(declared: Declared, observed: Observed, waiting: Wait) -> Workforce | None:
    """The runtime while none of its roles is wanted."""
    if declared.runtime is None:
        return None
    return Workforce(
        runtime=declared.runtime,
        observed=observed,
        wanted=frozenset(),
        workers=declared.runtime.spec.replicas,
        waiting=waiting,
        degraded=None,
        cache_states={},
        is_bound=False,
    )
