"""The spec of a mount that is a member of a cluster, after view and snapshot have been fetched."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from pydantic import SecretStr

from headrace.control.messages import Outlook
from headrace.control.outlooks import origins_of
from headrace.engine.registry import Registry
from headrace.errors import ConfigError
from headrace.roles.cluster.first_outlook import first_outlook
from headrace.roles.cluster.host_addresses import host_name
from headrace.roles.messages import MemberSpec, MountSpec
from headrace.roles.mountpoint.mountpoints import check_free, check_places
from headrace.roles.specs import resolved_settings
from headrace.roles.specs.terminal import Terminal
from headrace.settings.addresses import parse_address
from headrace.settings.cluster import ClusterConfig
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig, LevelConfig, SnapshotPolicy, TransferConfig
from headrace.settings.environment import Environment
from headrace.settings.paths import absolute
from headrace.settings.roles import MemberSettings
from headrace.settings.sizes import parse_size
from headrace.settings.view_limits import check_view


def member_spec(
    settings: MemberSettings, environment: Environment, terminal: Terminal, *, foreground: bool
) -> MountSpec:
    """The spec of the mount process, once view and snapshot are here.

    Raises what kept them from coming, and what would keep the folder from being mounted on.
    """
    master, token = (
        resolved_settings.needed_master(settings.master),
        resolved_settings.needed_token(settings, environment),
    )
    check_view(_mount_settings(settings), is_kept=settings.keeper is not None)
    mountpoint = _free_mountpoint(settings, environment)
    if settings.metrics_address:
        parse_address(settings.metrics_address)
    node = settings.node or host_name()
    state = absolute(settings.state_directory or _state(environment, master, mountpoint))
    levels = resolved_settings.prepared_levels(settings)
    tls = resolved_settings.tls_of(settings.tls)
    authority = tls.authority if tls else None
    outlook = asyncio.run(first_outlook(master, token, state, terminal.say, authority=authority))
    config = _config(settings, outlook, token=token, node=node, state=state, levels=levels)
    check_places(mountpoint, config)
    return MountSpec(
        config=config,
        mountpoint=mountpoint,
        settings=_mount_settings(settings),
        registry_directory=environment.runtime_directory,
        log_file=None if foreground else absolute(settings.log_file or state / "mount.log"),
        member=MemberSpec(master=master, mount_id=_mount_id(node, mountpoint)),
        keeper=absolute(settings.keeper) if settings.keeper else None,
    )


def _config(
    settings: MemberSettings,
    outlook: Outlook,
    *,
    token: SecretStr,
    node: str,
    state: Path,
    levels: tuple[LevelConfig, ...],
) -> EngineConfig:
    dataset = outlook.dataset
    return EngineConfig(
        name=outlook.cluster,
        origins=origins_of(dataset),
        cache=levels,
        state_directory=state,
        limits=resolved_settings.limits_of(settings.memory),
        transfer=TransferConfig(
            block_size_bytes=dataset.block_size_bytes,
            readahead_bytes=parse_size(settings.read_ahead, setting="read_ahead"),
        ),
        # The master lists; what it listed lies in the state folder.
        snapshot=SnapshotPolicy.KEEP,
        cluster=ClusterConfig(
            view=outlook.view or {},
            token=token,
            token_file=resolved_settings.token_file_of(settings),
            node=node,
            read_deadline_s=settings.read_deadline_s,
            hedge=settings.hedge,
            tls=resolved_settings.tls_of(settings.tls),
        ),
    )


def _mount_settings(settings: MemberSettings) -> MountSettings:
    shared = set(MountSettings.model_fields) & set(MemberSettings.model_fields)
    return MountSettings(**{name: getattr(settings, name) for name in shared})


def _free_mountpoint(settings: MemberSettings, environment: Environment) -> Path:
    if settings.mountpoint is None:
        raise ConfigError.of(
            "the mountpoint is missing", hint="name an empty folder: headrace mount --cluster URL FOLDER"
        )
    mountpoint = absolute(settings.mountpoint)
    registry = Registry(environment.runtime_directory)
    check_free(mountpoint, registry, is_kept=settings.keeper is not None, nonempty=settings.nonempty)
    return mountpoint


def _state(environment: Environment, master: str, mountpoint: Path) -> Path:
    identity = hashlib.blake2b(f"{master} {mountpoint}".encode(), digest_size=6).hexdigest()
    return environment.state_directory / f"mount-{identity}"


def _mount_id(node: str, mountpoint: Path) -> str:
    """The id of the mount at the master: the same after each start."""
    return f"mount-{hashlib.blake2b(f'{node}:{mountpoint}'.encode(), digest_size=8).hexdigest()}"
