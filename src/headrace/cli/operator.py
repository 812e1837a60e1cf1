"""`headrace operator`: the operator of a Kubernetes cluster. The chart starts it."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from headrace.errors import ConfigError
from headrace.kube.leadership import candidate
from headrace.operator.operator_process import run_operator
from headrace.operator.settings import Image, OperatorSettings
from headrace.plan.policy import policy_of
from headrace.roles.cluster.host_addresses import host_name
from headrace.roles.logs import start_python_log
from headrace.settings.log_format import LogFormat


def run(
    namespace: Annotated[
        str,
        typer.Option(envvar="POD_NAMESPACE", metavar="NAME", help="The operator's own namespace."),
    ] = "headrace-system",
    engine_image: Annotated[
        str,
        typer.Option(
            envvar="HEADRACE_ENGINE_IMAGE", metavar="IMAGE", help="Image of masters, workers and mounts."
        ),
    ] = "headrace/engine:latest",
    engine_pull_policy: Annotated[
        str,
        typer.Option(envvar="HEADRACE_ENGINE_PULL_POLICY", metavar="POLICY", help="Image pull policy."),
    ] = "IfNotPresent",
    engine_pull_secret: Annotated[
        list[str] | None, typer.Option(metavar="SECRET", help="Secret of each namespace to pull it with.")
    ] = None,
    node_folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder of each node for mounts and states.")
    ] = "/var/lib/headrace",
    local_folder: Annotated[
        list[str] | None,
        typer.Option(metavar="FOLDER", help="Folder of the nodes that datasets may read by local:///."),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(metavar="JSON", help="Limits for declared datasets: `policy` of the chart."),
    ] = "{}",
    machine_credentials: Annotated[
        bool,
        typer.Option(
            "--machine-credentials",
            help="Datasets that name no keys are read by those of the nodes (instance roles, web identities).",
        ),
    ] = False,
    identity: Annotated[
        str | None,
        typer.Option(envvar="POD_NAME", metavar="NAME", help="Its name in the election of a leader."),
    ] = None,
    health_port: Annotated[int, typer.Option(help="Address of /healthz and /readyz.")] = 8080,
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="Level of its log, and of the pods'.")
    ] = "info",
    log_format: Annotated[
        LogFormat, typer.Option(help="Form of its log, and of the pods'.")
    ] = LogFormat.JSON,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="To run outside of the cluster, for development.")
    ] = None,
) -> None:
    """Run the operator: it brings datasets of a Kubernetes cluster in line with their declarations."""
    allowed = policy_of(policy)
    allowed.check_beside(node_folder.rstrip("/"))
    settings = OperatorSettings(
        namespace=namespace,
        identity=candidate(identity or host_name()),
        engine=Image(engine_image, engine_pull_policy, tuple(engine_pull_secret or ())),
        node_folder=node_folder.rstrip("/"),
        log_level=log_level,
        log_format=log_format.value,
        health_port=health_port,
        local_folders=tuple(map(_folder, local_folder or ())),
        policy=allowed,
        machine_credentials=machine_credentials,
    )
    start_python_log(log_level, log_format)
    sys.exit(asyncio.run(run_operator(settings, kubeconfig)))


def _folder(text: str) -> str:
    parts = text.split("/")[1:]
    if not text.startswith("/") or not all(parts) or {".", ".."} & set(parts):
        raise ConfigError.of(
            f"--local-folder {text[:200]}: no absolute path of a folder", hint="write it as /mnt/data"
        )
    return text
