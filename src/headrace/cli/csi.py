"""`headrace csi`: the CSI driver of a node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from headrace.cli import role_options
from headrace.roles.logs import start_python_log
from headrace.settings.addresses import parse_address
from headrace.settings.environment import Environment
from headrace.settings.log_format import LogFormat
from headrace.settings.paths import absolute
from headrace.settings.toml_files import explain


def run(
    endpoint: Annotated[
        str, typer.Option(metavar="unix:///PATH", help="The socket where the kubelet calls the driver.")
    ],
    node: Annotated[str, typer.Option(metavar="NAME", help="The name of the node.")],
    node_folder: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", readable=False, help="Folder that driver and mounts of the node share."
        ),
    ] = Path("/var/lib/headrace"),
    registration: Annotated[
        Path | None,
        typer.Option(
            metavar="SOCKET",
            readable=False,
            help="In the kubelet's folder plugins_registry: to be found there.",
        ),
    ] = None,
    kubelet_endpoint: Annotated[
        Path | None,
        typer.Option(metavar="SOCKET", readable=False, help="The endpoint's path as the kubelet sees it."),
    ] = None,
    unused_after: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="A mount without a process and without users is taken off then; 0: never."
        ),
    ] = 600.0,
    stranded_after: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="A mount without a process is ended then, with its users; 0: never."
        ),
    ] = 3600.0,
    linger: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Time that a driver that was told to end waits for mounts that it alone keeps.",
        ),
    ] = 20.0,
    metrics_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of /metrics and /healthz.")
    ] = None,
    log_format: role_options.LogFormatOption = None,
) -> None:
    """Run the CSI driver of a node: it shows datasets to pods, and keeps their mounts over the end of a pod."""
    environment = Environment.current()
    from headrace.csi.driver import Driver  # noqa: PLC0415 - gRPC is not installed everywhere
    from headrace.csi.settings import CsiSettings  # noqa: PLC0415

    if metrics_address:
        parse_address(metrics_address)
    start_python_log(environment.get("HEADRACE_LOG") or "info", log_format or LogFormat.TEXT)
    try:
        settings = CsiSettings(
            node=node,
            endpoint=endpoint,
            node_folder=absolute(node_folder),
            registration=registration,
            kubelet_endpoint=kubelet_endpoint,
            unused_after_s=unused_after,
            stranded_after_s=stranded_after,
            linger_s=linger,
            metrics_address=metrics_address,
        )
    except ValidationError as error:
        raise explain(error, CsiSettings) from None
    asyncio.run(Driver(settings).run())
