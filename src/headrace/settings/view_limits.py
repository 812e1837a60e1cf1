"""What a mount of the mode `view` cannot do yet: said before it begins, and not found out by whoever relies on it."""

from __future__ import annotations

from headrace.errors import ConfigError
from headrace.settings.dataset import MountMode, MountSettings
from headrace.settings.engine import SnapshotPolicy


def check_view(settings: MountSettings, snapshot: SnapshotPolicy | None, *, is_shared: bool) -> None:
    """Raises `ConfigError` when these settings are of a view and do not fit one. `is_shared`: of a cluster, or kept by
    a keeper, so that others than whoever mounts it rely on what a mount does.
    """
    if settings.mode is not MountMode.VIEW:
        return
    if is_shared:
        raise ConfigError.of(
            "a mount of a cluster or with a keeper cannot be a view: it would not follow the dataset",
            hint="mount with --mode auto",
        )
    if snapshot is SnapshotPolicy.REVALIDATE:
        raise ConfigError.of(
            "a view shows the list of files that it was mounted with, and cannot go on to a newer one",
            hint="mount with --snapshot refresh or keep, or with --mode auto",
        )
    if not settings.allow_other:
        raise ConfigError.of(
            "the kernel lets every user into a view, as far as the modes of files and folders go",
            hint="add --allow-other if that is meant, else mount with --mode auto",
        )
