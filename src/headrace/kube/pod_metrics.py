"""The metrics of a pod: asked at its address from inside the cluster, through the API server from elsewhere."""

from __future__ import annotations

from typing import Any, Protocol

from aiohttp import ClientError

from headrace.errors import EngineError, HeadraceError
from headrace.foreign_answers import ask_plainly
from headrace.kube.client import KubeClient
from headrace.kube.resources import RESOURCES

_ANSWER_S = 5.0
_MOST_BYTES = 1 << 20


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
        url = f"http://{host}:{port}/metrics"
        try:
            text = await ask_plainly(url, most_bytes=_MOST_BYTES, timeout_s=_ANSWER_S)
        except (ClientError, TimeoutError, OSError, EngineError):
            return None
        return None if text is None else text.decode(errors="replace")


class ProxiedScraper:
    """For a program outside of the cluster, whose user may use the proxy of pods."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def text(self, pod: dict[str, Any], port: int) -> str | None:
        """OpenMetrics text; `None` when the pod does not answer, or its proxy may not be used."""
        metadata = pod["metadata"]
        path = RESOURCES["Pod"].path(metadata["namespace"], f"{metadata['name']}:{port}", "proxy/metrics")
        content = bytearray()
        try:
            async for piece in self._client.stream(path, "read metrics", {}, timeout_s=_ANSWER_S):
                content += piece
                if len(content) > _MOST_BYTES:
                    return None
        except HeadraceError:
            return None
        return content.decode(errors="replace")
