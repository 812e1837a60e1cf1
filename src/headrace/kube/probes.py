"""What kubelet asks a process of the cluster, whether it lives and whether it is ready; and what Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from headrace.openmetrics import OPEN_METRICS


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


async def serve_probes(port: int, is_ready: Callable[[], bool], metrics: Callable[[], str]) -> web.AppRunner:
    """These pages on all addresses, until the runner is cleaned up."""
    runner = web.AppRunner(probe_pages(is_ready, metrics), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
