"""`headrace webhook`: the admission webhook of a Kubernetes cluster. The chart starts it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated

import typer

from headrace.api.go_durations import parse_duration
from headrace.errors import ConfigError
from headrace.plan.policy import policy_of
from headrace.roles.logs import start_python_log
from headrace.settings.addresses import parse_address
from headrace.settings.log_format import LogFormat
from headrace.webhook.certificate_keeper import Place
from headrace.webhook.certificate_rotation import Rules
from headrace.webhook.webhook_process import WebhookSettings, run_webhook

_SHORTEST_LIFE_S = 3600.0
_LONGEST_LIFE_S = 10 * 365 * 86400.0
_LEVELS = ("error", "warn", "info", "debug", "trace")


def run(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address for API servers; :PORT is all addresses.")
    ] = ":8443",
    service: Annotated[
        str, typer.Option(metavar="NAME.NAMESPACE", help="The Service that leads here.")
    ] = "headrace-webhook.headrace-system",
    configuration: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the configurations that name the Service.")
    ] = "headrace-webhook",
    health_port: Annotated[int, typer.Option(help="Address of /healthz and /readyz.")] = 8080,
    certificate_life: Annotated[
        str, typer.Option(metavar="DURATION", help="Lifetime of a certificate; renewed at two thirds.")
    ] = "2160h",
    certificate_grace: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Time that an authority is announced before it is needed."),
    ] = "2m",
    policy: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Limits for declared datasets, as the operator has them."),
    ] = None,
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="Level of its log.")] = "info",
    log_format: Annotated[LogFormat, typer.Option(help="Form of its log.")] = LogFormat.JSON,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="To run outside of the cluster, for development.")
    ] = None,
) -> None:
    """Run the admission webhook: pods prefer nodes with their data, and authors learn at once what is refused."""
    host, port = parse_address(listen)
    settings = WebhookSettings(
        host=host,
        port=port,
        place=_place(service, configuration),
        health_port=health_port,
        rules=_rules(certificate_life, certificate_grace),
        policy=policy_of(policy) if policy is not None else None,
    )
    start_python_log(_level(log_level), log_format)
    asyncio.run(run_webhook(settings, kubeconfig))


def _place(service: str, configuration: str) -> Place:
    name, _, namespace = service.partition(".")
    if not name or not namespace or "." in namespace:
        raise ConfigError.of(
            f"'{service[:64]}' is not NAME.NAMESPACE",
            hint="write for example headrace-webhook.headrace-system",
        )
    return Place(name, namespace, configuration)


def _rules(life: str, grace: str) -> Rules:
    life_s, grace_s = parse_duration(life), parse_duration(grace)
    if not _SHORTEST_LIFE_S <= life_s <= _LONGEST_LIFE_S:
        raise ConfigError.of(
            f"certificates cannot live for {life[:32]}",
            hint="name a time from 1h to ten years, such as 2160h",
        )
    # A rotation waits for two graces within the last third of a life.
    if not 1 <= grace_s <= life_s / 12:
        raise ConfigError.of(
            f"{grace[:32]} is no grace for certificates that live for {life[:32]}",
            hint="name a time from 1s to a twelfth of their life",
        )
    return Rules(timedelta(seconds=life_s), grace_s)


def _level(text: str) -> str:
    if text not in _LEVELS:
        raise ConfigError.of(f"there is no level '{text[:32]}'", hint=f"known are {', '.join(_LEVELS)}")
    return text
