"""The endpoints of the master: which path asks the cluster for what."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from headrace.control.cluster import Cluster
from headrace.control.counts import counts_of
from headrace.control.http_call import Call
from headrace.control.messages import (
    DrainOrder,
    Heartbeat,
    LoadOrder,
    Message,
    MountHeartbeat,
    Outlook,
)
from headrace.control.metrics import metrics_text
from headrace.control.page import PAGE_HEADERS, page_bytes
from headrace.control.rights import Rights
from headrace.control.server import LARGEST_BODY_BYTES, Endpoint, FileReply, Reply, Server
from headrace.control.status import cluster_report, cluster_status
from headrace.openmetrics import OPEN_METRICS

LONGEST_POLL_S = 30.0
LARGEST_HEARTBEAT_BYTES = 1 << 20
"""A worker with as many levels and hanging folders as there may be, in the longest words."""
_LARGEST_MOUNT_BYTES = 32 << 10


class Api:
    """The endpoints of one cluster. `server` is set once it exists, for its own counters."""

    def __init__(self, cluster: Cluster, *, web: bool) -> None:
        self._cluster = cluster
        self._web = web
        self._outlooks: tuple[tuple[object, ...], bytes] | None = None
        self.server: Server | None = None

    def endpoints(self) -> list[Endpoint]:
        """All of them."""
        found = [
            Endpoint("POST", "/v1/heartbeat", self._heartbeat, Rights.WORKER, LARGEST_HEARTBEAT_BYTES),
            Endpoint("POST", "/v1/mounts", self._mount, Rights.READER, _LARGEST_MOUNT_BYTES),
            Endpoint("GET", "/v1/view", self._view, needs=Rights.READER),
            Endpoint("GET", "/v1/snapshot", self._snapshot, needs=Rights.READER),
            Endpoint("GET", "/v1/pins", self._pins, needs=Rights.WORKER),
            Endpoint("POST", "/v1/refresh", _plain(self._cluster.refresh), needs=Rights.ADMINISTRATOR),
            Endpoint("POST", "/v1/drain", self._drain, needs=Rights.ADMINISTRATOR),
            Endpoint("POST", "/v1/loads", self._start_load, Rights.ADMINISTRATOR, LARGEST_BODY_BYTES),
            Endpoint("GET", "/v1/loads", self._loads, needs=Rights.ADMINISTRATOR),
            Endpoint("GET", "/v1/loads/{id}", self._load, needs=Rights.ADMINISTRATOR),
            Endpoint("DELETE", "/v1/loads/{id}", self._cancel_load, needs=Rights.ADMINISTRATOR),
            Endpoint("GET", "/v1/report", self._report, needs=Rights.READER),
            Endpoint("GET", "/v1/status", self._status, Rights.READER, for_strangers=self._counts),
            Endpoint("GET", "/metrics", self._metrics, needs=None),
            Endpoint("GET", "/healthz", self._health, needs=None),
        ]
        return [*found, Endpoint("GET", "/", self._page, needs=None)] if self._web else found

    async def _heartbeat(self, call: Call) -> Reply:
        return Reply.of(await self._cluster.heartbeat(call.parse(Heartbeat)))

    async def _mount(self, call: Call) -> Reply:
        return Reply.of(self._cluster.mount_heartbeat(call.parse(MountHeartbeat)))

    async def _view(self, call: Call) -> Reply:
        timeout_s = min(call.number("wait_ms") / 1000, LONGEST_POLL_S)
        after = call.number("after")
        outlook = await self._cluster.wait_for_news(after, call.query.get("snapshot", ""), timeout_s)
        return Reply(self._encoded(outlook))

    def _encoded(self, outlook: Outlook) -> bytes:
        """The outlook as JSON; written once for all who wait for the same one."""
        if outlook.view is None:
            return outlook.model_dump_json().encode()
        tag = outlook.snapshot.tag if outlook.snapshot else ""
        key = (outlook.epoch, tag, outlook.pins_version, outlook.dataset.origins)
        if self._outlooks is None or self._outlooks[0] != key:
            self._outlooks = (key, outlook.model_dump_json().encode())
        return self._outlooks[1]

    async def _snapshot(self, call: Call) -> FileReply:
        held = self._cluster.shelf.get(call.number("version"))
        offset = min(call.number("offset"), held.note.file_bytes)
        return FileReply(held.path, offset, held.note.file_bytes, held.note.sha256, held.note.tag)

    async def _pins(self, call: Call) -> Reply:
        pins = self._cluster.pin_board.pins
        return Reply.of(pins.page(call.number("from")) if "from" in call.query else pins.listed())

    async def _drain(self, call: Call) -> Reply:
        await self._cluster.drain(call.parse(DrainOrder))
        return Reply.of(Message())

    async def _start_load(self, call: Call) -> Reply:
        return Reply.of(await self._cluster.start_load(call.parse(LoadOrder)))

    async def _loads(self, _call: Call) -> Reply:
        reports = [report.model_dump(mode="json") for report in self._cluster.loads.reports()]
        return Reply(json.dumps(reports).encode())

    async def _load(self, call: Call) -> Reply:
        return Reply.of(self._cluster.loads.get(call.parameters["id"]))

    async def _cancel_load(self, call: Call) -> Reply:
        return Reply.of(await self._cluster.loads.cancel(call.parameters["id"]))

    async def _status(self, _call: Call) -> Reply:
        return Reply(json.dumps(self._told()).encode())

    async def _counts(self, _call: Call) -> Reply:
        return Reply(json.dumps(counts_of(self._told())).encode())

    def _told(self) -> dict[str, Any]:
        return cluster_status(self._cluster, now_s=time.time(), monotonic_s=time.monotonic())

    async def _report(self, _call: Call) -> Reply:
        report = cluster_report(self._cluster, now_s=time.time(), monotonic_s=time.monotonic())
        return Reply.of(report)

    def metrics(self) -> str:
        """The text that Prometheus reads."""
        requests = self.server.requests if self.server else {}
        refused = self.server.refused if self.server else {}
        return metrics_text(self._cluster, requests, refused)

    async def _metrics(self, _call: Call) -> Reply:
        return Reply(self.metrics().encode(), OPEN_METRICS)

    async def _health(self, _call: Call) -> Reply:
        return Reply(b"serving\n", "text/plain; charset=utf-8")

    async def _page(self, _call: Call) -> Reply:
        return Reply(page_bytes(), "text/html; charset=utf-8", headers=dict(PAGE_HEADERS))


def _plain(order: Callable[[], Awaitable[BaseModel]]) -> Callable[[Call], Awaitable[Reply]]:
    """An endpoint whose request says nothing but itself."""

    async def answer(_call: Call) -> Reply:
        return Reply.of(await order())

    return answer
