"""An HTTP proxy in front of a test server that lies on command, and counts what it passes on.

A test adds a `Fault` for the requests it matches; the first fault that matches and still has times left is done
to a request, everything else passes unchanged. The proxy knows HTTP; what lies do is in `faults`.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, cast

from headrace.testing.faults import CHANGES, Answer, Fault, Lie, repeat_continuation

__all__ = ["Fault", "FaultyOrigin", "Lie"]

FORWARD_TIMEOUT_S = 30
DRIP_BYTES = 1024
SHUTDOWN_POLL_S = 0.02
_HOP_HEADERS = frozenset({"connection", "content-length", "transfer-encoding", "keep-alive"})


class FaultyOrigin:
    """A running proxy; `endpoint` takes the place of the server's."""

    def __init__(self, upstream: str, *, address: str = "127.0.0.1") -> None:
        """`upstream` is `http://host:port`. Host and all that is signed pass unchanged. It listens at `address`."""
        self._upstream = urllib.parse.urlsplit(upstream).netloc
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self.requests: Counter[str] = Counter()
        self.body_bytes = 0
        self._server = _Listener((address, 0), _Handler)
        self._server.origin = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(SHUTDOWN_POLL_S,), daemon=True
        )
        self._thread.start()

    @property
    def endpoint(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def add(self, fault: Fault) -> Fault:
        """The fault, whose `done` tells how often it was done."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def fault_for(self, method: str, target: str) -> Fault | None:
        with self._lock:
            self.requests[method] += 1
            return next((fault for fault in self._faults if fault.takes(method, target)), None)

    def count_body(self, size_bytes: int) -> None:
        with self._lock:
            self.body_bytes += size_bytes

    def forward(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
        """The server's own answer."""
        connection = http.client.HTTPConnection(self._upstream, timeout=FORWARD_TIMEOUT_S)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                if name.lower() != "connection":
                    connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            content = reply.read()
            told = [(n, v) for n, v in reply.getheaders() if n.lower() not in _HOP_HEADERS]
            # The answer to HEAD tells the length of a body that does not come.
            length = int(reply.getheader("Content-Length") or 0) if method == "HEAD" else len(content)
            return Answer(reply.status, told, content, length)
        finally:
            connection.close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    origin: FaultyOrigin

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: clients that hang up on a liar are the point of it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        origin = cast(_Listener, self.server).origin
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = origin.fault_for(self.command, self.path)
        if fault is not None and fault.lie is Lie.CONNECTION_RESET:
            return self._reset()
        if fault is not None and fault.lie is Lie.SILENCE:
            time.sleep(fault.delay_s)
            return self._reset()
        if fault is not None and fault.lie is Lie.HELD:
            fault.released.wait()
        return self._send(self._answer(origin, fault, body), fault, origin)

    # The names are the base class's.
    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def _answer(self, origin: FaultyOrigin, fault: Fault | None, body: bytes) -> Answer:
        answer = origin.forward(self.command, self.path, list(self.headers.items()), body)
        if fault is not None and fault.lie in CHANGES:
            CHANGES[fault.lie](answer)
        elif fault is not None and fault.lie is Lie.REPEATED_CONTINUATION:
            repeat_continuation(self.path, answer)
        return answer

    def _send(self, answer: Answer, fault: Fault | None, origin: FaultyOrigin) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(answer.length))
        self.end_headers()
        for piece in _pieces(answer.body, fault):
            origin.count_body(len(piece))
            self.wfile.write(piece)
            self.wfile.flush()
        self.wfile.flush()
        if fault is not None and fault.lie is Lie.RESET_IN_BODY:
            self._reset()
        if fault is not None and fault.lie in (Lie.SHORT_BODY, Lie.WRONG_LENGTH):
            self.close_connection = True

    def _reset(self) -> None:
        # Closing with a linger time of zero sends RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Nothing: the counters tell enough."""


def _pieces(body: bytes, fault: Fault | None) -> Iterator[bytes]:
    """What is written of a body, and when."""
    if fault is not None and fault.lie in (Lie.SHORT_BODY, Lie.RESET_IN_BODY):
        body = body[: len(body) // 2]
    if fault is None or fault.lie is not Lie.SLOW_DRIP:
        yield body
        return
    for start in range(0, len(body), DRIP_BYTES):
        time.sleep(fault.delay_s)
        yield body[start : start + DRIP_BYTES]
