"""What kubelet and Prometheus are told."""

from __future__ import annotations

import asyncio

import aiohttp

from headrace.kube.probes import serve_probes
from headrace.openmetrics import OPEN_METRICS


def test_life_readiness_and_numbers_are_told_apart() -> None:
    async def told() -> None:
        ready = False
        probes = await serve_probes(0, lambda: ready, lambda: "headrace_reconciles_total 1\n# EOF\n")
        # It listens on each family of addresses, and the kernel chose a port for each.
        port = dict(probes.door.addresses)["0.0.0.0"]

        async def page(name: str) -> tuple[int, str, str]:
            async with aiohttp.request("GET", f"http://127.0.0.1:{port}/{name}") as found:
                return found.status, found.headers["Content-Type"], await found.text()

        assert (await page("healthz"))[0] == 200
        assert (await page("readyz"))[0] == 503
        ready = True
        assert (await page("readyz"))[0] == 200
        assert await page("metrics") == (200, OPEN_METRICS, "headrace_reconciles_total 1\n# EOF\n")
        await probes.close()

    asyncio.run(told())


def test_probes_are_answered_beside_connections_that_say_nothing() -> None:
    async def told() -> None:
        probes = await serve_probes(0, lambda: True, str)
        port = dict(probes.door.addresses)["0.0.0.0"]
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        async with aiohttp.request("GET", f"http://127.0.0.1:{port}/healthz") as found:
            assert found.status == 200
        assert len(probes.door.crowd) <= 256
        for _, writer in idle:
            writer.transport.abort()
        await probes.close()

    asyncio.run(told())
