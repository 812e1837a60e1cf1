"""`headrace copy`: checks what can be checked, and becomes the copy's process."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import options, printer, resolved_settings, role_options
from headrace.cli.dataset_words import patterns
from headrace.cli.worker_spec import limits_of
from headrace.errors import ConfigError, HeadraceError
from headrace.roles.datasets import resolve_origins
from headrace.roles.host_addresses import host_name
from headrace.roles.launch import serve_role
from headrace.roles.messages import CopySpec
from headrace.roles.progress import ProgressFile
from headrace.settings.copying import CopyConfig
from headrace.settings.engine import EngineConfig, Limits, TransferConfig
from headrace.settings.environment import Environment
from headrace.settings.key_sources import KeySource
from headrace.settings.origins import OriginConfig, OriginMount
from headrace.settings.paths import absolute
from headrace.settings.roles import CopySettings, OriginSettings
from headrace.settings.sizes import parse_size

_SMALLEST_PART_BYTES = 5 << 20


def run(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[TARGET]", help="Destination of the files: a bucket or folder."),
    ] = None,
    config: role_options.Config = None,
    cluster: role_options.Cluster = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="ORIGIN", help="Storage to copy from, instead of a cluster's dataset."
        ),
    ] = None,
    exclude: options.Exclude = None,
    path: Annotated[
        str | None, typer.Option(metavar="PATH", help="A file or folder of the source; all of it by default.")
    ] = None,
    files: Annotated[int | None, typer.Option(metavar="N", help="Files copied at the same time.")] = None,
    state_directory: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the ledger; the same one resumes the copy."),
    ] = None,
    progress_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Says how far it is, replaced every second.")
    ] = None,
    token_file: role_options.TokenFile = None,
    log_format: role_options.LogFormatOption = None,
) -> int:
    """Copy files to a bucket or folder, comparing each; the same copy again goes on where it was."""
    environment = Environment.current()
    settings = resolved_settings.settings_of(
        CopySettings,
        config,
        environment,
        master=cluster,
        source=_source(source, exclude),
        source_path=path,
        target=OriginSettings(origin=target) if target else None,
        files=files,
        state_directory=state_directory,
        progress_file=progress_file,
        token_file=token_file,
        log_format=log_format,
    )
    try:
        spec = copy_spec(settings, environment)
    except HeadraceError as error:
        # Whoever started this process looks at the file alone.
        ProgressFile(settings.progress_file, settings.last_word_file).fail(error.message)
        raise
    return serve_role("copy", spec.state_directory.name, spec, environment, sys.argv)


def _source(origin: str | None, exclude: list[str] | None) -> OriginSettings | None:
    left_out = patterns(exclude) if exclude else None
    if origin is not None:
        return OriginSettings(origin=origin, exclude=left_out)
    if left_out:
        raise ConfigError.of(
            "--exclude is for --from ORIGIN",
            hint="the master of a cluster reports what its dataset leaves out",
        )
    return None


def copy_spec(settings: CopySettings, environment: Environment) -> CopySpec:
    """The spec of the copy process. Raises `ConfigError` or `RefusedError`."""
    if settings.target is None:
        raise ConfigError.of("the target is missing", hint="name it: headrace copy --from ORIGIN TARGET")
    target, keys = _resolved(settings.target, settings, environment)
    state = absolute(settings.state_directory or _state(settings, environment))
    limits = limits_of(settings.memory)
    transfer = TransferConfig(concurrency=settings.concurrency)
    part_bytes = parse_size(settings.part_size, setting="part_size")
    if part_bytes < _SMALLEST_PART_BYTES:
        raise ConfigError.of(f"part_size '{settings.part_size}' is too little", hint="5Mi is the least")
    config, token = None, None
    if settings.source is not None:
        source, source_keys = _resolved(settings.source, settings, environment)
        keys += source_keys
        config = _from_storage(settings, source, target.origin, state, limits, transfer)
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
    origin: OriginSettings, settings: CopySettings, environment: Environment
) -> tuple[OriginMount, tuple[KeySource, ...]]:
    ask = options.ask if sys.stdin.isatty() else None
    resolved = resolve_origins(
        (origin.model_copy(update={"path": ""}),),
        environment,
        ask,
        machine_credentials=settings.machine_credentials,
    )
    for warning in resolved.warnings:
        printer.warn(warning)
    return resolved.mounts[0], resolved.keys


def _state(settings: CopySettings, environment: Environment) -> Path:
    """One folder for each pair of source and target: the same words find the same ledger again."""
    source = settings.source.origin if settings.source else settings.master
    target = settings.target.origin if settings.target else ""
    identity = f"{source}\0{settings.source_path}\0{target}".encode()
    return environment.state_directory / f"copy-{hashlib.blake2b(identity, digest_size=6).hexdigest()}"
