"""`headrace support-bundle`: one file for who helps, without a credential."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from importlib import metadata
from typing import Annotated, Any

import typer

from headrace.cli import doctor, printer
from headrace.cli.dataset_words import settings_of
from headrace.diagnosis.bundle import machine_material
from headrace.diagnosis.bundle.known_secrets import known_secrets
from headrace.diagnosis.bundle.redaction import Redactor
from headrace.diagnosis.bundle.writing import Bundle, writing
from headrace.settings.environment import Environment
from headrace.settings.paths import absolute
from headrace.settings.sizes import format_size


def run(
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="The file that is made; it must not be there yet."),
    ] = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Of the cluster of the kubeconfig, instead of this machine.")
    ] = False,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="The kubeconfig; or KUBECONFIG.")
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the datasets; again for more."),
    ] = None,
) -> None:
    """Write what helps to find a fault into one file, without credentials: status, logs, settings, findings."""
    environment = Environment.current()
    name = time.strftime("headrace-support-%Y%m%d-%H%M%S.tar.gz", time.gmtime())
    target = absolute(file or name)
    # As Ctrl-C, so that what is begun is taken away where it has a name.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with writing(target, Redactor(known_secrets(environment))) as bundle:
        if kubernetes or kubeconfig:
            _of_cluster(bundle, kubeconfig, namespace)
        else:
            _of_machine(bundle, environment)
        bundle.finish(metadata.version("headrace"))
    printer.data(str(target))
    printer.say(
        f"{len(bundle.contents)} parts, {format_size(target.stat().st_size)}; manifest.json says what is in and what "
        "is not. Look into it before you hand it on: it names your hosts, buckets and paths"
    )


def _of_machine(bundle: Bundle, environment: Environment) -> None:
    settings = settings_of(environment, option=None, cache=None, secret_file=None)
    machine_material.collect(bundle, environment, list(doctor.of_machine(environment, settings, [])))


def _of_cluster(bundle: Bundle, kubeconfig: str | None, namespaces: list[str] | None) -> None:
    findings = doctor.of_cluster(kubeconfig, namespaces[0] if namespaces else None)
    bundle.add_value("doctor.json", [each.as_dict() for each in findings], "what `headrace doctor` finds")
    from headrace.diagnosis.bundle import cluster_material  # noqa: PLC0415 - not installed everywhere
    from headrace.kube.client import KubeClient  # noqa: PLC0415
    from headrace.kube.connection import configuration, default_namespace  # noqa: PLC0415

    async def ask() -> Any:
        async with KubeClient(await configuration(kubeconfig)) as client:
            wanted = namespaces or [default_namespace(kubeconfig)]
            await cluster_material.collect(bundle, client, wanted)

    asyncio.run(ask())
