"""`headrace master`: checks what can be checked, and becomes the master's process."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import options, role_options
from headrace.cli.dataset_words import patterns
from headrace.cli.role_settings import settings_of_role
from headrace.cli.terminal import terminal
from headrace.errors import ConfigError
from headrace.roles.launching.launch import serve_role
from headrace.roles.specs.master_spec import master_spec
from headrace.settings.environment import Environment
from headrace.settings.roles import MasterSettings

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)=(?P<address>.+)", re.DOTALL)


def run(
    origin: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ORIGIN]...", help="Location of the data; NAME=ORIGIN for each of several."),
    ] = None,
    config: role_options.Config = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the cluster.")] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = None,
    state_directory: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of its state, the token and the snapshots."),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(metavar="N", help="Number of workers that own each block.")
    ] = None,
    refresh_interval: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Take a new snapshot this often; 0: only when asked."),
    ] = None,
    web: Annotated[bool | None, typer.Option("--web/--no-web", help="Serve the web page at /.")] = None,
    exclude: options.Exclude = None,
    strict: options.Strict = None,
    secret_file: options.SecretFile = None,
    token_file: role_options.TokenFile = None,
    log_format: role_options.LogFormatOption = None,
) -> int:
    """Run the master of a cluster: members, snapshots, loads, status page."""
    environment = Environment.current()
    settings = settings_of_role(
        MasterSettings,
        config,
        environment,
        cluster=name,
        listen=listen,
        state_directory=state_directory,
        replicas=replicas,
        refresh_interval_s=refresh_interval,
        web=web,
        token_file=token_file,
        log_format=log_format,
        origins=origins_of(origin, secret_file, exclude, strict=strict),
    )
    spec = master_spec(settings, environment, terminal())
    return serve_role("master", settings.cluster, spec, environment, sys.argv)


def origins_of(
    origins: list[str] | None,
    secret_file: Path | None,
    exclude: list[str] | None = None,
    *,
    strict: bool | None = None,
) -> list[dict[str, object]] | None:
    """`NAME=URI` words as entries of `origins`; `None` when there are none."""
    given: dict[str, object] = {
        "secret_file": secret_file,
        "exclude": patterns(exclude) if exclude else None,
    }
    if strict:
        given["options"] = {"strict": "true"}
    given = {name: value for name, value in given.items() if value is not None}
    if not origins:
        words = {"secret_file": "--secret-file", "exclude": "--exclude", "options": "--strict"}
        for name in given:
            raise ConfigError.of(
                f"{words[name]} is for an ORIGIN of the command line",
                hint="say it in the file, as of its origin",
            )
        return None
    found: list[dict[str, object]] = []
    for word in origins:
        match = _NAMED.fullmatch(word)
        path, address = (match["name"], match["address"]) if match else ("", word)
        found.append({"path": path, "origin": address, **given})
    return found
