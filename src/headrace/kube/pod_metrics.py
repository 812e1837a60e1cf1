"""The metrics of a pod: asked at its address from inside the cluster, through the API server from elsewhere."""

from __future__ import annotations

from typing import Any, Protocol

from aiohttp import ClientError, ClientSession, ClientTimeout

from headrace.errors import HeadraceError
from headrace.kube.client import KubeClient
from headrace.kube.resources import RESOURCES

_ANSWER_S = 5.0


class Scraper(Protocol):
    """Asks pods for their metrics."""

    async def text(self, pod: dict[str, Any], port: int) -> str | None:
        """OpenMetrics text; `None` when the pod does not answer."""


class DirectScraper:
    """For a process that reaches pods by their addresses."""

    async def text(self, pod: dict[str, Any], port: int) -> str | None:
        """OpenMetrics text; `None` when the pod does not answer."""
        address = (pod.get("status") or {}).get("podIP")
        if not address:
            return None
        host = f"[{address}]" if ":" in address else address
        try:
            async with (
                ClientSession(timeout=ClientTimeout(total=_ANSWER_S)) as session,
                session.get(f"http://{host}:{port}/metrics") as answer,
            ):
                return await answer.text(errors="replace") if answer.status == 200 else None
        except (ClientError, TimeoutError, OSError):
            return None


class ProxiedScraper:
    """For a program outside of the cluster, whose user may use the proxy of pods."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def text(self, pod: dict[str, Any], port: int) -> str | None:
        """OpenMetrics text; `None` when the pod does not answer, or its proxy may not be used."""
        metadata = pod["metadata"]
        path = RESOURCES["Pod"].path(metadata["namespace"], f"{metadata['name']}:{port}", "proxy/metrics")
        content = b""
        try:
            async for piece in self._client.stream(path, "read metrics", {}, timeout_s=_ANSWER_S):
                content += piece
        except HeadraceError:
            return None
        return content.decode(errors="replace")
