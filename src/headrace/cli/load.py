"""`headrace load`: a distributed warm-up, followed to its end; eviction and pinning by path."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import printer, role_options
from headrace.cli.load_progress import follow, tell
from headrace.cli.master_client import ask_master
from headrace.cli.role_settings import settings_of_role
from headrace.control.messages import LoadAction, LoadOrder, LoadReport, encode_paths
from headrace.exits import ExitCode
from headrace.roles.specs.resolved_settings import needed_master, needed_token
from headrace.settings.environment import Environment
from headrace.settings.roles import LoadSettings
from headrace.settings.sizes import parse_size

if TYPE_CHECKING:
    from headrace.control.client import ControlClient


def run(
    path: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...", help="Files or folders below the dataset's root; none for all of it."
        ),
    ] = None,
    cluster: role_options.Cluster = None,
    config: role_options.Config = None,
    replicas: Annotated[
        int | None, typer.Option(metavar="N", help="Copies of each block; by default the cluster's.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Most bytes a second of the whole cluster, such as 1Gi."),
    ] = None,
    verify: Annotated[
        bool | None, typer.Option("--verify", help="Compare what is cached with its checksums, too.")
    ] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin", help="Keep what is loaded, whatever else is read.")
    ] = None,
    unpin: Annotated[
        bool | None, typer.Option("--unpin", help="Let the paths be evicted again; loads nothing.")
    ] = None,
    evict: Annotated[
        bool | None, typer.Option("--evict", help="Drop the paths from all caches; loads nothing.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "--no-wait", help="Start it, say its id, and end.")
    ] = False,
    cancel: Annotated[str | None, typer.Option(metavar="ID", help="Stop that load.")] = None,
    token_file: role_options.TokenFile = None,
    json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Bring data into the caches of a cluster; the same load again goes on where it was."""
    environment = Environment.current()
    settings = settings_of_role(
        LoadSettings,
        config,
        environment,
        master=cluster,
        paths=path or None,
        replicas=replicas,
        rate=rate,
        verify=verify,
        pin=pin,
        unpin=unpin,
        evict=evict,
        token_file=token_file,
    )
    order = order_of(settings)
    master, token = (
        needed_master(settings.master),
        needed_token(settings, environment),
    )
    if cancel is not None:
        tell(ask_master(master, token, lambda client: client.cancel_load(cancel)), json=json)
        return
    report = ask_master(master, token, lambda client: _run(client, order, detach=detach))
    if detach and not report.state.ended:
        printer.data(report.id)
        return
    tell(report, json=json)
    if not report.complete:
        raise typer.Exit(int(ExitCode.INCOMPLETE))


def order_of(settings: LoadSettings) -> LoadOrder:
    """The order for the master."""
    action = LoadAction.EVICT if settings.evict else LoadAction.UNPIN if settings.unpin else LoadAction.LOAD
    paths = [path.encode("utf-8", "surrogateescape").strip(b"/") for path in settings.paths]
    return LoadOrder(
        action=action,
        paths=encode_paths(paths),
        replicas=settings.replicas,
        rate_bytes_per_s=parse_size(settings.rate, setting="rate") or None if settings.rate else None,
        verify=settings.verify,
        pin=settings.pin,
    )


async def _run(client: ControlClient, order: LoadOrder, *, detach: bool) -> LoadReport:
    report = await client.start_load(order)
    if detach:
        return report
    try:
        return await follow(client, report)
    except asyncio.CancelledError:  # Ctrl-C
        await client.cancel_load(report.id)
        printer.say("load: cancelled; what is in stays in, the same command goes on from there")
        raise
