"""The consent of an owner: which namespaces may read a dataset by a reference. Pure.

Without it nobody outside of the dataset's own namespace learns whether the dataset exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from headrace.api.dataset import EVERY_NAMESPACE, Dataset
from headrace.plan.reasons import Reason, Wait, wait


def not_shared(own: str, key: str, other: Dataset | None) -> Wait | None:
    """Why the dataset `own` may not read the dataset `key`; the same words for one that does not exist."""
    shared_with = other.spec.shared_with if other is not None else ()
    namespace = own.partition("/")[0]
    if allows(shared_with, key, namespace):
        return None
    what = f"{own} refers to dataset {key}, which is not shared with namespace {namespace}"
    return wait(Reason.DATASET_NOT_SHARED, what)


def allows(shared_with: Collection[str], key: str, namespace: str) -> bool:
    """True when a dataset `key` that is shared with these namespaces may be read from `namespace`."""
    own = key.partition("/")[0]
    return namespace == own or namespace in shared_with or EVERY_NAMESPACE in shared_with


def shared_with_of(content: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The namespaces that a Dataset names, also of one that makes no sense otherwise."""
    spec = (content or {}).get("spec")
    named = spec.get("sharedWith") if isinstance(spec, Mapping) else None
    return tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()


def allowed_referrers(referrers: Iterable[str], content: Mapping[str, Any] | None, key: str) -> set[str]:
    """Those of the referrers (`namespace/name`) that the owner of dataset `key` lets read it."""
    shared_with = shared_with_of(content)
    return {each for each in referrers if allows(shared_with, key, each.partition("/")[0])}
