"""`headrace status`: what is mounted on this machine, and how it does; its words."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import mount_status, options, role_options
from headrace.errors import ConfigError
from headrace.settings.addresses import parse_master_url


def run(
    target: Annotated[
        str | None, typer.Argument(metavar="[MOUNTPOINT]", help="One mount; without it, all of this machine.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="URL", help="A whole cluster, as its master sees it.")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="The local backend: its nodes, and what runs on them.")
    ] = False,
    token_file: role_options.TokenFile = None,
    json: options.Json = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="json", help="The same as --json.")
    ] = None,
) -> None:
    """Show the mounts of this machine and the local backend, or a cluster: cached share, hits, nodes, loads."""
    if output not in (None, "json"):
        raise ConfigError.of(f"'{output}' is not a format", hint="known is json")
    if token_file is not None and cluster is None:
        raise ConfigError.of("--token-file is that of a cluster", hint="name its master by --cluster")
    json = json or output == "json"
    if local:
        if target is not None or cluster is not None:
            raise ConfigError.of("--local shows the local backend alone", hint="leave the other words out")
        # Here and below, since most ask for mounts alone, and each brings along what the others have no use for.
        from headrace.cli import backend_status  # noqa: PLC0415

        backend_status.show(json=json)
        return
    if cluster is not None:
        if target is not None:
            raise ConfigError.of("a MOUNTPOINT and a --cluster are different things to show", hint="name one")
        from headrace.cli import cluster_status  # noqa: PLC0415

        cluster_status.show(parse_master_url(cluster), token_file, json=json)
        return
    if code := mount_status.show(target, json=json):
        raise typer.Exit(code)
