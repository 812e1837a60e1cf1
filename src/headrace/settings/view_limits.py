"""Limits of a mount of the mode `view`: reported before it begins, and not discovered by a program that relies on
it."""

from __future__ import annotations

from headrace.errors import ConfigError
from headrace.settings.dataset import MountMode, MountSettings


def check_view(settings: MountSettings, *, is_kept: bool) -> None:
    """Raises `ConfigError` when these settings are of a view and do not fit one. `is_kept`: by a keeper."""
    if settings.mode is not MountMode.VIEW:
        return
    if is_kept:
        raise ConfigError.of(
            "a mount with a keeper cannot be a view: pods would not see a new list of files",
            hint="mount with --mode auto",
        )
    if not settings.allow_other:
        raise ConfigError.of(
            "the kernel lets every user into a view, as far as the modes of files and folders go",
            hint="add --allow-other if that is meant, else mount with --mode auto",
        )
