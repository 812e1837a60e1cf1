"""The spec of a copy's process, from its settings."""

from __future__ import annotations

import hashlib
from pathlib import Path

from headrace.errors import ConfigError
from headrace.roles.cluster.host_addresses import host_name
from headrace.roles.messages import CopySpec
from headrace.roles.specs import resolved_settings
from headrace.roles.specs.origins import resolve_origins
from headrace.roles.specs.terminal import Terminal
from headrace.settings.copying import CopyConfig
from headrace.settings.engine import EngineConfig, Limits, TransferConfig
from headrace.settings.environment import Environment
from headrace.settings.key_sources import KeySource
from headrace.settings.origins import OriginConfig, OriginMount
from headrace.settings.paths import absolute
from headrace.settings.roles import CopySettings, OriginSettings
from headrace.settings.sizes import parse_size

_SMALLEST_PART_BYTES = 5 << 20


def copy_spec(settings: CopySettings, environment: Environment, terminal: Terminal) -> CopySpec:
    """The spec of the copy process. Raises `ConfigError` or `RefusedError`."""
    if settings.target is None:
        raise ConfigError.of("the target is missing", hint="name it: headrace copy --from ORIGIN TARGET")
    target, keys = _resolved(settings.target, settings, environment, terminal)
    state = absolute(settings.state_directory or _state(settings, environment))
    limits = resolved_settings.limits_of(settings.memory)
    transfer = TransferConfig(concurrency=settings.concurrency)
    part_bytes = parse_size(settings.part_size, setting="part_size")
    if part_bytes < _SMALLEST_PART_BYTES:
        raise ConfigError.of(f"part_size '{settings.part_size}' is too little", hint="5Mi is the least")
    config, token = None, None
    if settings.source is not None:
        source, source_keys = _resolved(settings.source, settings, environment, terminal)
        keys += source_keys
        config = _from_storage(settings, source, target.origin, state=state, limits=limits, transfer=transfer)
    else:
        resolved_settings.needed_master(settings.master)
        token = resolved_settings.needed_token(settings, environment)
    files = ("progress_file", "last_word_file")
    told = settings.model_copy(
        update={name: absolute(path) for name in files if (path := getattr(settings, name))}
    )
    return CopySpec(
        settings=told,
        config=config,
        target=target.origin,
        limits=limits,
        transfer=transfer,
        state_directory=state,
        part_bytes=part_bytes,
        node=settings.node or host_name(),
        token=token,
        token_file=resolved_settings.token_file_of(settings),
        keys=keys,
        tls=resolved_settings.tls_of(settings.tls),
    )


def _from_storage(
    settings: CopySettings,
    source: OriginMount,
    target: OriginConfig,
    *,
    state: Path,
    limits: Limits,
    transfer: TransferConfig,
) -> CopyConfig:
    engine = EngineConfig(
        name="copy", origins=(source,), state_directory=state, limits=limits, transfer=transfer
    )
    return CopyConfig(
        source=engine,
        source_path=settings.source_path.strip("/"),
        target=target,
        files=settings.files,
        part_bytes=parse_size(settings.part_size, setting="part_size"),
    )


def _resolved(
    origin: OriginSettings, settings: CopySettings, environment: Environment, terminal: Terminal
) -> tuple[OriginMount, tuple[KeySource, ...]]:
    resolved = resolve_origins(
        (origin.model_copy(update={"path": ""}),),
        environment,
        terminal,
        machine_credentials=settings.machine_credentials,
    )
    return resolved.mounts[0], resolved.keys


def _state(settings: CopySettings, environment: Environment) -> Path:
    """One folder for each pair of source and target: the same words find the same ledger again."""
    source = settings.source.origin if settings.source else settings.master
    target = settings.target.origin if settings.target else ""
    identity = f"{source}\0{settings.source_path}\0{target}".encode()
    return environment.state_directory / f"copy-{hashlib.blake2b(identity, digest_size=6).hexdigest()}"
