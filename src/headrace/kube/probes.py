"""The liveness and readiness probes of kubelet to a process of the cluster, and the requests of Prometheus.

Any pod can reach it, so there are bounds: a process is not to be restarted because it was asked too much.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from headrace.listening.crowd import Bounds
from headrace.listening.http import HttpListener
from headrace.openmetrics import OPEN_METRICS

PROBE_BOUNDS = Bounds(connections=512, strangers=512, strangers_of_address=256, held_bytes=8 << 20)
_SHUTDOWN_S = 5.0


def probe_pages(is_ready: Callable[[], bool], metrics: Callable[[], str]) -> web.Application:
    """`/healthz` answers while the loop turns, `/readyz` says whether it is ready, `/metrics` what was counted."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        ready = is_ready()
        return web.Response(text="ok\n" if ready else "not yet\n", status=200 if ready else 503)

    async def counted(_: web.Request) -> web.Response:
        return web.Response(text=metrics(), headers={"Content-Type": OPEN_METRICS})

    application = web.Application()
    application.add_routes(
        [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", counted)]
    )
    return application


async def serve_probes(port: int, is_ready: Callable[[], bool], metrics: Callable[[], str]) -> HttpListener:
    """These pages on all addresses, until it is closed."""
    listener = HttpListener(probe_pages(is_ready, metrics), shutdown_s=_SHUTDOWN_S, bounds=PROBE_BOUNDS)
    await listener.start("", port)
    return listener
