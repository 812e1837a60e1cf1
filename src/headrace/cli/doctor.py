"""`headrace doctor`: what is wrong with this machine, a storage or a cluster, and what to do about it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import options, printer
from headrace.cli.dataset_words import settings_of
from headrace.diagnosis import cache_checks, cache_facts, machine_checks, machine_facts, origins
from headrace.diagnosis.findings import Finding, Level, has_fault
from headrace.errors import ConfigError
from headrace.exits import ExitCode
from headrace.settings.dataset import DatasetSettings
from headrace.settings.environment import Environment

_MARKS = {Level.GOOD: "ok", Level.NOTE: "note", Level.FAULT: "FAULT"}


def run(
    origin: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ORIGIN]...", help="Storage to be checked as well: as it is to be mounted."),
    ] = None,
    cache: options.Cache = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="KEY=VALUE", help="An option of the origin, as for `headrace mount`."
        ),
    ] = None,
    secret_file: options.SecretFile = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="The cluster of the kubeconfig, instead of this machine.")
    ] = False,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="The kubeconfig; or KUBECONFIG.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace to check rights in.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="json", help="The same as --json.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Check this machine, a storage or a cluster: each fault is named with its remedy."""
    if output not in (None, "json"):
        raise ConfigError.of(f"'{output}' is not a format", hint="known is json")
    if (kubernetes or kubeconfig) and origin:
        raise ConfigError.of("a cluster and an ORIGIN are different things to check", hint="name one")
    environment = Environment.current()
    if kubernetes or kubeconfig:
        found = iter(of_cluster(kubeconfig, namespace))
    else:
        settings = settings_of(environment, option=option, cache=cache, secret_file=secret_file)
        found = of_machine(environment, settings, origin or [])
    findings = [_told(finding, quiet=json or output == "json") for finding in found]
    if json or output == "json":
        printer.as_json({"findings": [each.as_dict() for each in findings], "faults": _faults(findings)})
    else:
        printer.say(f"{_faults(findings)} faults in {len(findings)} checks")
    if has_fault(findings):
        printer.flush()
        raise typer.Exit(int(ExitCode.FAULTS))


def of_machine(environment: Environment, settings: DatasetSettings, words: list[str]) -> Iterator[Finding]:
    """This machine, its cache folders, and these origins."""
    yield from machine_checks.check(machine_facts.gather(environment))
    for folder in _cache_folders(environment, settings):
        yield from cache_checks.check(cache_facts.gather(folder))
    ask = options.ask if sys.stdin.isatty() else None
    for word in words:
        yield from origins.check(word, settings, environment, ask)


def of_cluster(kubeconfig: str | None, namespace: str | None) -> list[Finding]:
    """The cluster that a kubeconfig leads to. Raises what keeps it from any answer."""
    from headrace.diagnosis import cluster_checks, cluster_facts  # noqa: PLC0415 - not installed everywhere
    from headrace.kube.client import KubeClient  # noqa: PLC0415
    from headrace.kube.connection import configuration, default_namespace  # noqa: PLC0415
    from headrace.plan.volume import DRIVER  # noqa: PLC0415

    async def ask() -> cluster_facts.ClusterFacts:
        async with KubeClient(await configuration(kubeconfig)) as client:
            return await cluster_facts.gather(client, namespace or default_namespace(kubeconfig), DRIVER)

    return list(cluster_checks.check(asyncio.run(ask()), metadata.version("headrace")))


def _cache_folders(environment: Environment, settings: DatasetSettings) -> list[Path]:
    if settings.cache is None:
        return [environment.cache_directory]
    return [folder for word in settings.cache for folder in word.folders]


def _told(finding: Finding, *, quiet: bool) -> Finding:
    """Written as soon as it is known: a storage that does not answer takes seconds."""
    if not quiet:
        printer.data(f"{_MARKS[finding.level].ljust(5)}  {finding.check}: {finding.text}")
        if finding.remedy:
            printer.data(f"       {'→' if finding.level is Level.FAULT else '·'} {finding.remedy}")
        printer.flush()
    return finding


def _faults(findings: list[Finding]) -> int:
    return sum(finding.level is Level.FAULT for finding in findings)
