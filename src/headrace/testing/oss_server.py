"""A small server that speaks OSS's own REST protocol, for reading: list, GET with range and condition, HEAD.

It refuses a wrong signature as OSS does. Buckets are reached by path (`/bucket/key`) and by host name
(`bucket.localhost`; many machines resolve `localhost` only, so a client must then connect to 127.0.0.1 itself). The
differences of OSS from S3 are kept: an impossible range is answered with the whole object and 200, etags are in
capitals, a page holds 100 keys unless more are asked for.
"""

from __future__ import annotations

import email.utils
import re
import threading
import urllib.parse
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, cast
from xml.sax.saxutils import escape

from headrace.testing.oss_objects import OssBucket, OssObject, list_xml
from headrace.testing.oss_signature import OssKeys, RefusalError, check_signature

DEFAULT_KEYS = OssKeys("headrace-oss-key", "headrace-oss-secret-0123456789")
SHUTDOWN_POLL_S = 0.02
RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class OssServer:
    """A running server; `buckets` and their objects may be changed at any time."""

    def __init__(
        self, *, keys: OssKeys = DEFAULT_KEYS, public_read: bool = False, address: str = "127.0.0.1"
    ) -> None:
        """`public_read` lets requests without any signature read."""
        self.keys = keys
        self.public_read = public_read
        self.buckets: dict[str, OssBucket] = {}
        self.requests: Counter[str] = Counter()
        self.body_bytes = 0
        self._lock = threading.Lock()
        self._server = _Listener((address, 0), _Handler)
        self._server.oss = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(SHUTDOWN_POLL_S,), daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def endpoint(self) -> str:
        """For clients that put the bucket into the path."""
        return f"http://{self._server.server_address[0]!s}:{self.port}"

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

    def count(self, what: str, body_bytes: int) -> None:
        with self._lock:
            self.requests[what] += 1
            self.body_bytes += body_bytes

    def answer(self, method: str, target: str, headers: dict[str, str]) -> Answer:
        """The answer to one request; `headers` have lower-case names."""
        try:
            host_bucket = _bucket_in_host(headers.get("host", ""))
            if not (self.public_read and "authorization" not in headers):
                check_signature(self.keys, method, target, headers, bucket_in_host=host_bucket)
            return self._answer_signed(target, headers, host_bucket)
        except RefusalError as refusal:
            return _error(refusal)

    def _answer_signed(self, target: str, headers: dict[str, str], host_bucket: str | None) -> Answer:
        path, _, query_text = target.partition("?")
        path = urllib.parse.unquote(path).removeprefix("/")
        name, _, key = (host_bucket, "", path) if host_bucket is not None else path.partition("/")
        bucket = self.buckets.get(name)
        if bucket is None:
            raise RefusalError(404, "NoSuchBucket", "The specified bucket does not exist.")
        if not key:
            query = dict(urllib.parse.parse_qsl(query_text, keep_blank_values=True))
            return Answer(200, {"Content-Type": "application/xml"}, list_xml(bucket, name, query).encode())
        known = bucket.get(key)
        if known is None:
            raise RefusalError(404, "NoSuchKey", "The specified key does not exist.")
        return _object_answer(known, headers)


def _bucket_in_host(host: str) -> str | None:
    name = host.partition(":")[0]
    return name.removesuffix(".localhost") if name.endswith(".localhost") else None


def _object_answer(known: OssObject, headers: dict[str, str]) -> Answer:
    wanted = headers.get("if-match", "*")
    if wanted != "*" and wanted.strip('"') != known.etag.strip('"'):
        raise RefusalError(
            412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold."
        )
    told = {
        "ETag": known.etag,
        "Last-Modified": email.utils.format_datetime(known.modified, usegmt=True),
        "Content-Type": "application/octet-stream",
        "Accept-Ranges": "bytes",
        "x-oss-object-type": "Normal",
    }
    content = known.read()
    part = _part(headers.get("range", ""), len(content))
    if part is None:
        return Answer(200, told, content)
    start, end = part
    return Answer(
        206, {**told, "Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}, content[start:end]
    )


def _part(text: str, size: int) -> tuple[int, int] | None:
    """First byte and end of a range; None where OSS sends the whole object: no range, or one that cannot be."""
    match = RANGE.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    start = max(size - int(last), 0) if not first else int(first)
    end = min(int(last) + 1, size) if first and last else size
    return (start, end) if start < end else None


def _error(refusal: RefusalError) -> Answer:
    fields = {"Code": refusal.code, "Message": refusal.message, "RequestId": "0000", "HostId": "localhost"}
    body = "".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in fields.items())
    xml = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{body}</Error>'
    return Answer(refusal.status, {"Content-Type": "application/xml"}, xml.encode())


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    oss: OssServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body go out in one piece; else each small answer waits for the client's delayed ACK.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._reply()

    def do_HEAD(self) -> None:
        self._reply()

    def _reply(self) -> None:
        server = cast(_Listener, self.server).oss
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = server.answer(self.command, self.path, headers)
        with_body = self.command != "HEAD"
        server.count(f"{self.command} {answer.status}", len(answer.body) if with_body else 0)
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Nothing: the counters tell enough."""
