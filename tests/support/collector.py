"""A collector of OpenTelemetry, as far as metrics go: it takes OTLP over HTTP, and keeps what it was sent."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

_DEADLINE_S = 60.0


@dataclass(frozen=True)
class Report:
    """One request of a sender."""

    headers: dict[str, str]
    resource: dict[str, str]
    metrics: dict[str, Any]
    """As the protocol has them, by name."""


@dataclass
class Collector:
    """Answers at `endpoint` while the block lasts."""

    status: int = 200
    reports: list[Report] = field(default_factory=list)
    _came: threading.Condition = field(default_factory=threading.Condition)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        """The address, as OTEL_EXPORTER_OTLP_ENDPOINT names it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def wait_for(self, number: int) -> list[Report]:
        """The reports, once there are so many."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.reports) >= number, _DEADLINE_S), self.reports
            return list(self.reports)

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        assert path == "/v1/metrics", path
        request = ExportMetricsServiceRequest.FromString(
            gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        )
        (resource_metrics,) = request.resource_metrics
        attributes = {each.key: each.value.string_value for each in resource_metrics.resource.attributes}
        metrics = {each.name: each for scope in resource_metrics.scope_metrics for each in scope.metrics}
        with self._came:
            self.reports.append(Report(headers, attributes, metrics))
            self._came.notify_all()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector._take(self.path, {key.lower(): value for key, value in self.headers.items()}, body)
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(collector.status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Nothing: the tests see what came."""

        return Handler
