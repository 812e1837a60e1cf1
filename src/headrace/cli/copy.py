"""`headrace copy`: checks what can be checked, and becomes the copy's process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import options, role_options
from headrace.cli.dataset_words import patterns
from headrace.cli.role_settings import settings_of_role
from headrace.cli.terminal import terminal
from headrace.errors import ConfigError, HeadraceError
from headrace.roles.launching.launch import serve_role
from headrace.roles.processes.progress import ProgressFile
from headrace.roles.specs.copy_spec import copy_spec
from headrace.settings.environment import Environment
from headrace.settings.roles import CopySettings, OriginSettings


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
    settings = settings_of_role(
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
        spec = copy_spec(settings, environment, terminal())
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
