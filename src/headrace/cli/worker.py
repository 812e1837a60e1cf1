"""`headrace worker`: checks what can be checked, and becomes the worker's process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import options, role_options
from headrace.cli.master import origins_of
from headrace.cli.role_settings import settings_of_role
from headrace.cli.terminal import terminal
from headrace.roles.launching.launch import serve_role
from headrace.roles.specs.worker_spec import worker_spec
from headrace.settings.environment import Environment
from headrace.settings.roles import WorkerSettings


def run(
    origin: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ORIGIN]...", help="The same origins as the master's; NAME=ORIGIN for several."
        ),
    ] = None,
    config: role_options.Config = None,
    cluster: role_options.Cluster = None,
    cache: options.Cache = None,
    worker_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Unique and stable over restarts; the host's name."),
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="The machine; readers on it are near.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="For mounts and other workers.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST[:PORT]", help="The address under which others reach it.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit for data in flight.")
    ] = None,
    state_directory: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of its lock and the last view.")
    ] = None,
    metrics_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of /metrics and /healthz.")
    ] = None,
    secret_file: options.SecretFile = None,
    token_file: role_options.TokenFile = None,
    log_format: role_options.LogFormatOption = None,
) -> int:
    """Run a worker of a cluster: its cache folders serve mounts and other workers."""
    environment = Environment.current()
    settings = settings_of_role(
        WorkerSettings,
        config,
        environment,
        master=cluster,
        cache=cache,
        id=worker_id,
        node=node,
        listen=listen,
        advertise=advertise,
        memory=memory,
        state_directory=state_directory,
        metrics_address=metrics_address,
        token_file=token_file,
        log_format=log_format,
        origins=origins_of(origin, secret_file),
    )
    spec = worker_spec(settings, environment, terminal())
    return serve_role("worker", spec.id, spec, environment, sys.argv)
