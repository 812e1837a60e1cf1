"""A synthetic S3 server that answers ListObjectsV1/V2, HEAD and GET for buckets of a million empty objects, fast.

Why it exists: a folder-backed server walks a directory of N entries for every page of 1000, so a listing of a
million takes it longer than any lister; what would be measured is the server. Here all objects of a directory have
entries of one length, so a page is a slice of one prepared buffer. It checks no signatures and holds no data.

    python -m benchmarks.listing_server HOST:PORT DIRECTORY=COUNT…
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import contextlib
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import entry_name
from headrace.testing.processes import ServerProcess, free_port

PAGE = 1000
READY = "listing server is ready"
ETAG = "d41d8cd98f00b204e9800998ecf8427e"
MODIFIED = "2026-01-02T03:04:05.000Z"
MODIFIED_HTTP = "Fri, 02 Jan 2026 03:04:05 GMT"
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


@dataclass(frozen=True)
class Directory:
    """`count` objects `name/sample-…`, their XML in one buffer of fixed-length entries."""

    name: str
    count: int
    entries: bytes
    entry_bytes: int

    @classmethod
    def make(cls, name: str, count: int) -> Directory:
        template = (
            f"<Contents><Key>{name}/%s</Key><LastModified>{MODIFIED}</LastModified><ETag>&quot;{ETAG}&quot;</ETag>"
            "<Size>0</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )
        entries = "".join([template % entry_name(index) for index in range(count)]).encode()
        return cls(name, count, entries, len(entries) // count)

    def key(self, index: int) -> str:
        return f"{self.name}/{entry_name(index)}"

    def index_after(self, key: str) -> int:
        """The first object whose key is greater."""
        return bisect.bisect_right(range(self.count), key, key=self.key)

    def index_from(self, key: str) -> int:
        """The first object whose key is not less."""
        return bisect.bisect_left(range(self.count), key, key=self.key)

    def page(self, start: int, end: int) -> bytes:
        return self.entries[start * self.entry_bytes : end * self.entry_bytes]


@dataclass(frozen=True)
class Query:
    """A listing request, both versions of the API in one shape."""

    prefix: str
    delimiter: str
    after: str
    limit: int
    version: int

    @classmethod
    def parse(cls, text: str) -> Query:
        fields = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        after = max(
            fields.get("start-after", ""), fields.get("continuation-token", ""), fields.get("marker", "")
        )
        limit = min(int(fields.get("max-keys", PAGE)), PAGE)
        return cls(
            fields.get("prefix", ""),
            fields.get("delimiter", ""),
            after,
            limit,
            2 if "list-type" in fields else 1,
        )


class Bucket:
    """The directories of the only bucket, in key order."""

    def __init__(self, directories: list[Directory]) -> None:
        self._directories = sorted(directories, key=lambda directory: directory.name + "/")

    def list(self, query: Query) -> bytes:
        """The XML of one page."""
        if query.delimiter == "/" and "/" not in query.prefix:
            return self._folders(query)
        parts: list[bytes] = []
        left, last, truncated = query.limit, "", False
        for directory in self._directories:
            start, end = _range(directory, query)
            if start >= end:
                continue
            if left == 0:
                truncated = True
                break
            taken = min(left, end - start)
            parts.append(directory.page(start, start + taken))
            left, last = left - taken, directory.key(start + taken - 1)
            truncated = start + taken < end
        return _envelope(query, b"".join(parts), query.limit - left, last if truncated else "")

    def holds(self, key: str) -> bool:
        """Whether an object has exactly this key."""
        for directory in self._directories:
            if key.startswith(directory.name + "/"):
                index = directory.index_from(key)
                return index < directory.count and directory.key(index) == key
        return False

    def _folders(self, query: Query) -> bytes:
        names = [directory.name + "/" for directory in self._directories]
        shown = [name for name in names if name.startswith(query.prefix) and name > query.after]
        body = "".join(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in shown)
        return _envelope(query, body.encode(), len(shown), "")


def _range(directory: Directory, query: Query) -> tuple[int, int]:
    """The objects of a directory that a query can mean: below its prefix and after its marker."""
    start = directory.index_from(query.prefix) if query.prefix else 0
    end = directory.index_from(query.prefix + "\U0010ffff") if query.prefix else directory.count
    return max(start, directory.index_after(query.after) if query.after else 0), end


def _envelope(query: Query, body: bytes, count: int, last_key: str) -> bytes:
    token = ""
    if last_key:
        token = f"<NextMarker>{last_key}</NextMarker>"
        if query.version == 2:
            token = f"<NextContinuationToken>{last_key}</NextContinuationToken>"
    head = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="{NAMESPACE}"><Name>wide</Name>'
        f"<Prefix>{query.prefix}</Prefix><Delimiter>{query.delimiter}</Delimiter><MaxKeys>{query.limit}</MaxKeys>"
        f"<KeyCount>{count}</KeyCount><IsTruncated>{str(bool(last_key)).lower()}</IsTruncated>{token}"
    )
    return head.encode() + body + b"</ListBucketResult>"


class Server(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, as much as S3 clients use. Requests have no bodies that matter here."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            line = self._received[:end].split(b"\r\n", 1)[0].decode("latin-1")
            self._received = self._received[end + 4 :]
            method, target, _ = line.split(" ", 2)
            assert isinstance(self._transport, asyncio.WriteTransport)
            self._transport.write(self._answer(method, target))

    def _answer(self, method: str, target: str) -> bytes:
        path, _, query = target.partition("?")
        key = urllib.parse.unquote(path).lstrip("/").partition("/")[2]
        if method not in ("GET", "HEAD"):
            return _reply("405 Method Not Allowed", b"", "text/plain", with_body=True)
        if key:
            found = self._bucket.holds(key)
            return _reply(
                "200 OK" if found else "404 Not Found", b"", "image/jpeg", with_body=method == "GET"
            )
        if "location" in query.split("&") or query.startswith("location="):
            body = f'<LocationConstraint xmlns="{NAMESPACE}">us-east-1</LocationConstraint>'.encode()
        else:
            body = self._bucket.list(Query.parse(query)) if method == "GET" else b""
        return _reply("200 OK", body, "application/xml", with_body=method == "GET")


def _reply(status: str, body: bytes, content_type: str, *, with_body: bool) -> bytes:
    head = (
        f'HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nContent-Type: {content_type}\r\nETag: "{ETAG}"\r\n'
        f"Last-Modified: {MODIFIED_HTTP}\r\nServer: listing\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")


async def _serve(host: str, port: int, bucket: Bucket) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Server(bucket), host, port, backlog=512)
    print(READY, flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def running_listing_server(directories: Mapping[str, int], state: Path) -> Iterator[str]:
    """A server in a process of its own; its endpoint. It ends with the block."""
    address = f"127.0.0.1:{free_port()}"
    pairs = [f"{name}={count}" for name, count in directories.items()]
    command = [sys.executable, "-m", "benchmarks.listing_server", address, *pairs]
    # A log of its own each time: the word that says "ready" must not be an earlier server's.
    log_path = state / f"listing-server-{address.rpartition(':')[2]}.log"
    log_path.unlink(missing_ok=True)
    with ServerProcess(command, log_path=log_path) as process:
        process.wait_until(lambda: READY in process.log_tail(), timeout_s=60)
        yield f"http://{address}"


def main() -> None:
    parser = argparse.ArgumentParser(description="A synthetic S3 server of very many empty objects.")
    parser.add_argument("address", help="host:port to listen on")
    parser.add_argument("directory", nargs="+", help="NAME=COUNT")
    arguments = parser.parse_args()
    host, _, port = arguments.address.rpartition(":")
    pairs = [text.rpartition("=") for text in arguments.directory]
    bucket = Bucket([Directory.make(name, int(count)) for name, _, count in pairs])
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(host, int(port), bucket))


if __name__ == "__main__":
    main()
