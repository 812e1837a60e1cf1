"""The small web server of a mount process: `/metrics` for Prometheus, `/healthz` for whoever restarts processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.errors import BusyError
from headrace.settings.addresses import parse_address

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PLAIN = "text/plain; charset=utf-8"
_TIMEOUT_S = 10


class Endpoint:
    """Answers from a thread of its own until it is closed."""

    def __init__(
        self, address: str, metrics: Callable[[], str], healthy: Callable[[], bool], word: str = "mounted"
    ) -> None:
        host, port = parse_address(address)
        handler = _handler(metrics, healthy, word)
        try:
            self._server = _server_class(host)((host, port), handler)
        except OSError as error:
            raise BusyError.of(
                f"cannot listen on {address} for metrics: {error.strerror}",
                hint="give another --metrics-address",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port, also when 0 was asked for."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Ends the thread and frees the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _server_class(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = 10 if ":" in host else 2  # AF_INET6, AF_INET

    return Server


def _handler(
    metrics: Callable[[], str], healthy: Callable[[], bool], word: str
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(HTTPStatus.OK, metrics(), OPEN_METRICS)
            elif path == "/healthz":
                well = healthy()
                status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, f"{word}\n" if well else f"not {word}\n", _PLAIN)
            else:
                self._answer(HTTPStatus.NOT_FOUND, "try /metrics or /healthz\n", _PLAIN)

        def _answer(self, status: HTTPStatus, text: str, content_type: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """A scrape every few seconds is not worth a line."""

    return Handler
