"""A small web server in a thread of its own, for the few pages of a process that has no event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from headrace.errors import BusyError
from headrace.settings.addresses import parse_address

PLAIN = "text/plain; charset=utf-8"
_TIMEOUT_S = 10


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    text: str
    content_type: str = PLAIN


class Pages:
    """Answers until it is closed. `answer` gets the path without a query; it is called from threads of the server."""

    def __init__(self, address: str, answer: Callable[[str], Page], *, purpose: str, setting: str) -> None:
        """Listens. Raises `BusyError`, which says for which `purpose` and which `setting` to change."""
        host, port = parse_address(address)
        try:
            self._server = _server_class(host)((host, port), _handler(answer))
        except OSError as error:
            raise BusyError.of(
                f"cannot listen on {address} {purpose}: {error.strerror}", hint=f"give another {setting}"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="pages", daemon=True)
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


def _handler(answer: Callable[[str], Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S

        def do_GET(self) -> None:
            page = answer(self.path.partition("?")[0])
            body = page.text.encode()
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """A question every few seconds is not worth a line."""

    return Handler
