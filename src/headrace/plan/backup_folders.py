"""Folders of nodes in which backups are kept: each namespace has its own below those that the administrator names."""

from __future__ import annotations

from headrace.api.dataset import Dataset
from headrace.plan import mount_addresses
from headrace.plan.policy import Policy
from headrace.plan.reasons import Reason, Wait, wait


def refused_place(place: str, namespace: str, what: str, policy: Policy | None) -> Wait | None:
    """Why a backup of this namespace may not be at `place`; `None` where it may."""
    folder = mount_addresses.folder_of(place)
    if policy is None or not folder or policy.backup_root(folder, namespace) is not None:
        return None
    allowed = ", ".join(f"{each}/{namespace}" for each in policy.backup_folders) or "no folder of the nodes"
    message = f"{what} is folder {folder} of the nodes, and backups of namespace {namespace} lie in {allowed}"
    return wait(Reason.BACKUP_FOLDER_NOT_ALLOWED, message)


def refused_backup(dataset: Dataset, namespace: str, policy: Policy | None) -> Wait | None:
    """Why a dataset may not begin from the backup that it names."""
    place = dataset.spec.data_restore_location
    if place is None or place.path is None:
        return None
    return refused_place(place.path, namespace, "dataRestoreLocation", policy)
