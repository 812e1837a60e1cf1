"""The spec of a mount that reads its origins itself, from the settings of its dataset and its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.engine.configure import configure
from headrace.engine.registry import Registry
from headrace.roles.messages import MountSpec
from headrace.roles.mountpoint.mountpoints import check_free, check_places
from headrace.roles.specs.terminal import Terminal
from headrace.settings.addresses import parse_address
from headrace.settings.dataset import DatasetSettings, MountSettings
from headrace.settings.environment import Environment
from headrace.settings.paths import absolute
from headrace.settings.view_limits import check_view
from headrace.settings.writing_limits import check_writable


def mount_spec(
    origins: Sequence[str],
    dataset: DatasetSettings,
    settings: MountSettings,
    environment: Environment,
    terminal: Terminal,
    *,
    mountpoint: Path,
    keeper: Path | None,
    foreground: bool,
) -> MountSpec:
    """The spec of the mount process. Makes the cache folders, and raises what would keep the folder from being mounted
    on.
    """
    if settings.metrics_address:
        parse_address(settings.metrics_address)
    check_view(settings, is_kept=keeper is not None)
    check_writable(settings, is_kept=keeper is not None)
    folder = absolute(mountpoint)
    registry = Registry(environment.runtime_directory)
    check_free(folder, registry, is_kept=keeper is not None, nonempty=settings.nonempty)
    configured = configure(origins, dataset, environment, ask=terminal.ask)
    for warning in configured.warnings:
        terminal.warn(warning)
    config = configured.config.model_copy(update={"writable": settings.writable})
    check_places(folder, config)
    return MountSpec(
        config=config,
        keys=configured.keys,
        mountpoint=folder,
        settings=settings,
        registry_directory=environment.runtime_directory,
        log_file=None if foreground else absolute(settings.log_file or config.state_directory / "mount.log"),
        keeper=absolute(keeper) if keeper else None,
    )
