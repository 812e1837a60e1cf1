"""The spec of a master's process, from its settings."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from headrace.control.cluster_token import create_token
from headrace.control.rights import Rights, need
from headrace.control.roster import policy_of
from headrace.control.tls import server_context
from headrace.errors import ConfigError, RefusedError
from headrace.roles.cluster.host_addresses import host_name
from headrace.roles.messages import MasterSpec
from headrace.roles.specs import resolved_settings
from headrace.roles.specs.origins import resolve_origins
from headrace.roles.specs.terminal import Terminal
from headrace.settings.addresses import parse_address
from headrace.settings.cluster import ClusterConfig
from headrace.settings.engine import EngineConfig, Limits, SnapshotPolicy, TransferConfig, listing_bytes_of
from headrace.settings.environment import Environment
from headrace.settings.paths import absolute
from headrace.settings.roles import HttpsSettings, MasterSettings
from headrace.trusted_folders import make_folder


def master_spec(settings: MasterSettings, environment: Environment, terminal: Terminal) -> MasterSpec:
    """The spec of the master's process. Makes the token when there is none. Raises `ConfigError` or `RefusedError`."""
    parse_address(settings.listen)
    resolved = resolve_origins(
        settings.origins, environment, terminal, machine_credentials=settings.machine_credentials
    )
    state = absolute(settings.state_directory or environment.state_directory / f"master-{settings.cluster}")
    rules = policy_of(
        replicas=settings.replicas,
        heartbeat_s=settings.heartbeat_interval_s,
        dead_after_s=settings.dead_after_s,
    )
    block = resolved_settings.block_size_bytes(settings.block_size)
    (token, token_file), tls = (
        _token(settings, state, environment, terminal),
        resolved_settings.tls_of(settings.tls),
    )
    need(token, Rights.ADMINISTRATOR)
    nobody = {"epoch": 0, "replicas": rules.replicas, "members": []}
    config = EngineConfig(
        name=settings.cluster,
        origins=resolved.mounts,
        # Beside our own state, which the engine's lock does not reach.
        state_directory=state / "engine",
        limits=_limits(settings),
        transfer=TransferConfig(block_size_bytes=block, concurrency=settings.concurrency),
        snapshot=SnapshotPolicy.REFRESH if settings.snapshot_at_start else SnapshotPolicy.KEEP,
        cluster=ClusterConfig(view=nobody, token=token, token_file=token_file, node=host_name(), tls=tls),
    )
    return MasterSpec(
        settings=_checked(settings),
        config=config,
        state_directory=state,
        token=token,
        token_file=token_file,
        keys=resolved.keys,
    )


def _limits(settings: MasterSettings) -> Limits:
    if settings.list_memory is None:
        return Limits()
    return Limits(listing_bytes=listing_bytes_of(settings.list_memory))


def _checked(settings: MasterSettings) -> MasterSettings:
    """The settings with absolute paths for HTTPS. Raises `ConfigError` for a certificate that cannot be used."""
    if settings.https is None:
        return settings
    https = HttpsSettings(certificate=absolute(settings.https.certificate), key=absolute(settings.https.key))
    server_context(https.certificate, https.key)
    return settings.model_copy(update={"https": https})


def _token(
    settings: MasterSettings, state: Path, environment: Environment, terminal: Terminal
) -> tuple[SecretStr, Path | None]:
    """The token, and the file that it is in, if it is in one."""
    token = resolved_settings.token_of(settings, environment) if settings.token_file is None else None
    if token is not None:
        return token, None
    path = absolute(settings.token_file) if settings.token_file else state / "token"
    if path.exists():
        there = settings.model_copy(update={"token_file": path})
        return resolved_settings.needed_token(there, environment), path
    try:
        make_folder(path.parent)
    except RefusedError:
        raise
    except OSError as error:
        raise ConfigError.of(f"cannot use the state folder {path.parent}: {error.strerror}") from None
    created = create_token(path)
    terminal.say(
        f"the token of cluster {settings.cluster} is in {path}; "
        "`headrace token` makes those of workers and mounts of it"
    )
    return created, path
