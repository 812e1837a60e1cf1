"""Limits of mounts that programs may write to: what does not go together with it."""

from __future__ import annotations

from headrace.errors import ConfigError
from headrace.settings.dataset import MountMode, MountSettings


def check_writable(settings: MountSettings, *, is_kept: bool) -> None:
    """Refuses a writable mount in a way that cannot be. `is_kept`: by the keeper of a node. Raises `ConfigError`."""
    if not settings.writable:
        return
    if settings.mode in (MountMode.ELIDE, MountMode.VIEW):
        raise ConfigError.of(
            f"a writable mount cannot be served in mode {settings.mode.value}",
            hint="leave out --mode: files that are only read are passed through where that is possible",
        )
    if is_kept:
        raise ConfigError.of(
            "volumes of Kubernetes cannot be written to yet", hint="mount without --writable"
        )
