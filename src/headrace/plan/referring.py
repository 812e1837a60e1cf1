"""The plan of a dataset that only refers to another: it has no cache of its own, and is read through that one's."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from headrace.api.conditions import DatasetConditionType
from headrace.api.dataset import Dataset, DatasetStatus
from headrace.api.ignored import ignored_fields
from headrace.api.mounts import scheme_of
from headrace.plan import mount_addresses
from headrace.plan.condition_times import condition_of
from headrace.plan.dataset_status import Findings, dataset_status, was_bound
from headrace.plan.dataset_tree import mounted_of
from headrace.plan.declared import Declared, is_closing, is_leaving
from headrace.plan.mount_options import patterns_of_references
from headrace.plan.mounting import place_users_mounts, volume_in_the_way
from headrace.plan.observed import Observed
from headrace.plan.outcome import Decision, Plan, outcome
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.role_settings import mounts_on
from headrace.plan.sharing import not_shared
from headrace.plan.steps import NO_STEPS, Progress, next_steps, teardown_steps
from headrace.plan.volume import ignored_capacity, volume_of


def refers_only(declared: Declared) -> bool:
    """True for a dataset with one mount, `dataset://NAMESPACE/NAME`, and no runtime."""
    return declared.runtime is None and declared.dataset is not None and _is_reference(declared.dataset)


def referred(declared: Declared) -> str | None:
    """The dataset ("namespace/name") whose cluster it is read through, when that is another one's."""
    if declared.dataset is None or not refers_only(declared):
        return None
    (mount,) = declared.dataset.spec.mounts or ()
    return mount_addresses.dataset_of(mount.mount_point)[0]


def plan_reference(
    declared: Declared, dataset: Dataset, observed: Observed, now: datetime, terminating: Wait | None = None
) -> Plan:
    """Mounts where the dataset is used, of the other one's cluster; and the other one's numbers."""
    (mount,) = dataset.spec.mounts or ()
    key, folder = mount_addresses.dataset_of(mount.mount_point)
    other = declared.references.get(key)
    if (refused := not_shared(declared.key, key, other)) is not None:
        return _cut_off(declared, dataset, observed, now, refused=refused, terminating=terminating)
    waiting = _waiting(declared.key, key, other) or _too_late(declared, key, other)
    roles = mounts_on(place_users_mounts(observed).nodes, key)
    steps = next_steps(Progress(roles, observed, listed=waiting is None, borrows=True), now)
    volume = volume_of(dataset, sub_path=folder) if waiting is None or observed.users else None
    findings = Findings(
        dataset=dataset,
        observed=observed,
        waiting=waiting,
        terminating=terminating,
        mounted=mounted_of(dataset),
        ignored=(*ignored_fields(dataset), *ignored_capacity(dataset), *patterns_of_references(dataset)),
        degraded=volume_in_the_way(volume, observed) if terminating is None else None,
    )
    decision = Decision(declared, findings, None, roles=roles, steps=steps, volume=volume)
    return outcome(decision, now, _mirrored(dataset_status(findings, now), other, waiting))


def _cut_off(
    declared: Declared,
    dataset: Dataset,
    observed: Observed,
    now: datetime,
    *,
    refused: Wait,
    terminating: Wait | None,
) -> Plan:
    """Nothing runs, also where somebody reads: the owner of the other dataset does not consent, or no more.

    The claim goes as soon as nobody uses it, and nobody begins to.
    """
    findings = Findings(dataset=dataset, observed=observed, waiting=refused, terminating=terminating)
    decision = Decision(
        declared,
        findings,
        None,
        steps=replace(teardown_steps(observed), cuts_readers=True) if observed.roles else NO_STEPS,
        volume=volume_of(dataset) if observed.users else None,
        closes=True,
    )
    return outcome(decision, now)


def _is_reference(dataset: Dataset) -> bool:
    mounts = dataset.spec.mounts or ()
    return len(mounts) == 1 and scheme_of(mounts[0].mount_point) == mount_addresses.DATASET


def _waiting(own: str, key: str, other: Dataset | None) -> Wait | None:
    if other is None:
        return wait(Reason.DATASET_REFERENCE_MISSING, f"{own} refers to dataset {key}, which does not exist")
    if _is_reference(other) or key == own:
        return wait(
            Reason.DATASET_REFERENCE_REFUSED, f"{own} refers to dataset {key}, which itself refers to another"
        )
    ready = condition_of((other.status or DatasetStatus()).conditions, DatasetConditionType.READY)
    if ready is None or ready.status != "True":
        return wait(Reason.DATASET_REFERENCE_NOT_READY, f"{own} refers to dataset {key}, which is not ready")
    return None


def _too_late(declared: Declared, key: str, other: Dataset | None) -> Wait | None:
    """Who was read through it goes on; who comes now would keep it for ever."""
    if other is None or not is_closing(other) or was_bound(declared.dataset_status):
        return None
    what = f"{key}, {'which' if is_leaving(other) else 'whose runtime'} is being deleted"
    return wait(Reason.DATASET_REFERENCE_NOT_READY, f"{declared.key} refers to dataset {what}")


def _mirrored(own: DatasetStatus, other: Dataset | None, waiting: Wait | None) -> DatasetStatus:
    status = other.status if other else None
    if status is None or waiting is not None:
        return own
    shown: dict[str, Any] = {
        "ufs_total": status.ufs_total,
        "file_num": status.file_num,
        "cache_states": status.cache_states,
        "runtimes": status.runtimes,
    }
    return own.model_copy(update={name: value for name, value in shown.items() if value})
