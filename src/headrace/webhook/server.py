"""The HTTPS server that API servers ask, bounded bodies in and reviews out, and pages for probes. Decides nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from headrace.errors import ConfigError
from headrace.kube.probes import PROBE_BOUNDS, probe_pages
from headrace.listening.crowd import Bounds
from headrace.listening.guard import Times
from headrace.listening.http import HttpListener
from headrace.settings.addresses import format_address
from headrace.webhook.reviews import Question, read_question

LARGEST_BODY_BYTES = 4 << 20
"""More than an API server takes itself (3 MiB), as JSON may come out a little longer than it went in."""

Takes = Callable[[str], bool]
"""True for a path that an API server was told."""

Ask = Callable[[Question], Awaitable[dict[str, Any]]]
"""Answers a question."""

_BODY_S = 1.5
_SHUTDOWN_S = 5.0
# Go's clients, as API servers are, keep an unused connection for 90 s: a review that met its end would be lost.
_TIMES = Times(idle_s=120.0)
_BOUNDS = Bounds(connections=1024, strangers=1024, strangers_of_address=256, held_bytes=16 << 20)
"""API servers prove nothing, so everybody is a stranger here; who has few connections keeps them."""


class _Listener(HttpListener):
    """An application on one address, until it is closed."""

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listens; the port, also when 0 was asked for. Raises `ConfigError`."""
        try:
            return await super().start(host, port, tls)
        except OSError as error:
            raise ConfigError.of(
                f"cannot listen on {format_address(host, port)}: {error.strerror}", hint="name another port"
            ) from error


class AdmissionServer(_Listener):
    """Takes reviews to `answer` that come by a path which `takes` knows."""

    def __init__(
        self, answer: Ask, takes: Takes, *, bounds: Bounds | None = None, times: Times | None = None
    ) -> None:
        application = web.Application(client_max_size=LARGEST_BODY_BYTES)
        application.router.add_post("/{path:.*}", self._review)
        super().__init__(
            application,
            shutdown_s=_SHUTDOWN_S,
            bounds=bounds or _BOUNDS,
            times=times or _TIMES,
            keeps_strangers=True,
        )
        self._answer = answer
        self._takes = takes

    async def _review(self, request: web.Request) -> web.Response:
        if not self._takes(request.path):
            return web.Response(status=404, text="nothing is here\n", headers={"Connection": "close"})
        try:
            async with asyncio.timeout(_BODY_S):
                body = await request.read()
            question = read_question(body)
        except TimeoutError:
            return web.Response(status=408, text="the request did not come in time\n")
        except ConfigError as error:
            return web.Response(status=400, text=f"{error}\n")
        return web.json_response(await self._answer(question))


class ProbeServer(_Listener):
    """Tells kubelets that this process lives, and whether it is ready to be asked, and Prometheus what it did."""

    def __init__(self, is_ready: Callable[[], bool], metrics: Callable[[], str]) -> None:
        super().__init__(probe_pages(is_ready, metrics), shutdown_s=_SHUTDOWN_S, bounds=PROBE_BOUNDS)
