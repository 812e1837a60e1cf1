"""The process of the webhook: its parts, put together and taken apart again."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass, field
from functools import partial

from headrace.errors import ConfigError
from headrace.kube.client import KubeClient
from headrace.kube.connection import configuration
from headrace.otlp import exported
from headrace.plan.policy import Policy
from headrace.webhook.admission_paths import AdmissionPaths
from headrace.webhook.answering import answer
from headrace.webhook.certificate_keeper import CertificateKeeper, Place
from headrace.webhook.certificate_rotation import Rules
from headrace.webhook.metrics import Tally, metrics_text
from headrace.webhook.mirror import Mirror
from headrace.webhook.server import AdmissionServer, Ask, ProbeServer
from headrace.webhook.serving_certificate import ServingContext

_log = logging.getLogger("headrace.webhook")

FIELD_MANAGER = "headrace-webhook"
_LINGER_S = 5.0
_AFTER_FAULT_S = 20.0


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The settings of a webhook: its address and name, and the life of its certificates. `health_port` 0 takes any."""

    host: str
    port: int
    place: Place
    health_port: int = 8080
    rules: Rules = field(default_factory=Rules)
    linger_s: float = _LINGER_S
    policy: Policy | None = None
    """What the administrator allows of declared objects; without it nobody is warned."""


async def run_webhook(settings: WebhookSettings, kubeconfig: str | None = None) -> None:
    """Serves until SIGTERM or SIGINT. Raises `ConfigError` when it cannot begin."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    async with KubeClient(await configuration(kubeconfig), FIELD_MANAGER) as client:
        await serve(settings, client, stopping)


async def serve(settings: WebhookSettings, client: KubeClient, stopping: asyncio.Event) -> None:
    """Serves until `stopping` is set. Raises `ConfigError` when it cannot listen."""
    serving = ServingContext()
    keeper = CertificateKeeper(client, settings.place, serving, rules=settings.rules)
    mirror = Mirror(client)
    tally = Tally()

    def is_ready() -> bool:
        return keeper.is_announced and mirror.is_whole and not stopping.is_set()

    def metrics() -> str:
        return metrics_text(tally, is_ready=is_ready(), ends=serving.ends)

    probes = ProbeServer(is_ready, metrics)
    await probes.start(settings.host, settings.health_port)
    try:
        async with exported("headrace-webhook", metrics), asyncio.TaskGroup() as group:
            background = [group.create_task(_keep(keeper)), group.create_task(mirror.follow())]
            ask = partial(answer, knowledge=mirror, tally=tally, policy=settings.policy)
            await _serve_when_possible(settings, serving, keeper.paths, ask, stopping)
            for task in background:
                task.cancel()
    except* ConfigError as errors:
        raise errors.exceptions[0] from None
    finally:
        await probes.close()


async def _keep(keeper: CertificateKeeper) -> None:
    while True:
        try:
            wait_s = await keeper.reconcile()
        except Exception:  # what is served stays as it is, and is good for weeks
            _log.exception("certificate: it cannot be looked after")
            wait_s = _AFTER_FAULT_S
        await asyncio.sleep(wait_s)


async def _serve_when_possible(
    settings: WebhookSettings,
    serving: ServingContext,
    paths: AdmissionPaths,
    ask: Ask,
    stopping: asyncio.Event,
) -> None:
    """Listens from the first certificate on, until a while after the end: API servers learn late that we go."""
    if not await _first_of(serving.is_usable, stopping):
        return
    server = AdmissionServer(ask, paths.takes)
    port = await server.start(settings.host, settings.port, serving.context)
    _log.info("listens on port %d as %s", port, settings.place.names[0])
    try:
        await stopping.wait()
        await asyncio.sleep(settings.linger_s)
    finally:
        await server.close()


async def _first_of(wanted: asyncio.Event, stopping: asyncio.Event) -> bool:
    """Waits for one of both; True when `wanted` is set."""
    tasks = [asyncio.ensure_future(each.wait()) for each in (wanted, stopping)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    return wanted.is_set()
