"""`headrace jobkeeper`: the keeper of training jobs of a Kubernetes cluster. The chart starts it."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from headrace.kube.leadership import candidate
from headrace.kubeflow.keeper import KeeperSettings, run_keeper
from headrace.roles.cluster.host_addresses import host_name
from headrace.roles.logs import start_python_log
from headrace.settings.log_format import LogFormat


def run(
    namespace: Annotated[
        str, typer.Option(envvar="POD_NAMESPACE", metavar="NAME", help="The keeper's own namespace.")
    ] = "headrace-system",
    identity: Annotated[
        str | None,
        typer.Option(envvar="POD_NAME", metavar="NAME", help="Its name in the election of a leader."),
    ] = None,
    health_port: Annotated[int, typer.Option(help="Address of /healthz and /readyz.")] = 8080,
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="Level of its log.")] = "info",
    log_format: Annotated[LogFormat, typer.Option(help="Form of its log.")] = LogFormat.JSON,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="To run outside of the cluster, for development.")
    ] = None,
) -> None:
    """Run the keeper of training jobs: it starts them when their data is warm, keeps their logs, frees volumes."""
    start_python_log(log_level, log_format)
    settings = KeeperSettings(namespace, candidate(identity or host_name()), health_port)
    sys.exit(asyncio.run(run_keeper(settings, kubeconfig)))
