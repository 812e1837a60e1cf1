"""An HTTP proxy before a storage server that counts the bytes of objects, exactly: no header, no listing.

A link counts what went over the wire; this counts what was asked for, and which parts of which object, so that a test
can say "each byte once". Runs as a process of its own, on the storage's side of the link. Changes nothing that passes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import mmap
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

CHUNK_BYTES = 65_536
LARGEST_HEAD_BYTES = 1 << 20
COUNTER = struct.Struct("<Q")
BODILESS = frozenset({204, 304})


@dataclass(frozen=True)
class Fetch:
    """One answer that held a part of an object."""

    path: str
    first: int
    size_bytes: int


class FetchLog:
    """The log that a proxy writes and its test reads: a counter that is never late, and a line for each fetch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._counter_path, self._lines_path = folder / "object-bytes", folder / "fetches.jsonl"

    def begin(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._counter_path.write_bytes(COUNTER.pack(0))
        self._lines_path.touch()

    def object_bytes(self) -> int:
        """Bytes of objects handed out so far; counted before they are sent."""
        return int(COUNTER.unpack(self._counter_path.read_bytes())[0])

    def fetches(self) -> list[Fetch]:
        """Every fetch that has ended, in the order of the ends."""
        lines = self._lines_path.read_text().splitlines()
        return [Fetch(**json.loads(line)) for line in lines]

    def open_for_writing(self) -> tuple[mmap.mmap, TextIO]:
        with self._counter_path.open("r+b") as file:
            return mmap.mmap(file.fileno(), COUNTER.size), self._lines_path.open("a", buffering=1)


@dataclass(frozen=True)
class Head:
    """The first line and the fields of a request or an answer; `raw` is passed on."""

    raw: bytes
    first_line: str
    fields: Mapping[str, str]

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Head | None:
        """None when the connection ended between two messages."""
        try:
            raw = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *rest = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
        split = (line.partition(":") for line in rest)
        return cls(raw, first, {name.strip().lower(): value.strip() for name, _, value in split})

    @property
    def length(self) -> int:
        return int(self.fields.get("content-length") or 0)

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.fields.get("transfer-encoding", "").lower()


class CountingProxy:
    """Passes on every connection and counts what answers of objects hold."""

    def __init__(self, upstream: tuple[str, int], log: FetchLog) -> None:
        self._upstream = upstream
        self._counter, self._lines = log.open_for_writing()
        self._counted = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_writer: asyncio.StreamWriter | None = None
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._upstream, limit=LARGEST_HEAD_BYTES)
            while request := await Head.read(reader):
                far_writer.write(request.raw)
                await _pass_on(reader, far_writer, request.length)
                if not await self._answer(request, far_reader, writer):
                    return
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            for one in (writer, far_writer):
                if one is not None:
                    one.close()

    async def _answer(
        self, request: Head, far_reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Passes one answer on; False when nothing can follow on this connection."""
        answer = await Head.read(far_reader)
        if answer is None:
            return False
        method, target, _ = request.first_line.split(" ", 2)
        status = int(answer.first_line.split(" ")[1])
        writer.write(answer.raw)
        if method == "HEAD" or status in BODILESS:
            await writer.drain()
        elif answer.is_chunked:
            await _pass_chunks_on(far_reader, writer)
        elif method == "GET" and status in (200, 206) and is_object(target):
            await self._count_object(target, answer, far_reader, writer)
        else:
            await _pass_on(far_reader, writer, answer.length)
        return "close" not in answer.fields.get("connection", "").lower()

    async def _count_object(
        self, target: str, answer: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # "bytes 0-4095/8192"
        first = int(answer.fields.get("content-range", "bytes 0-").split()[1].split("-")[0])
        passed = 0
        try:
            while passed < answer.length:
                chunk = await reader.read(min(CHUNK_BYTES, answer.length - passed))
                if not chunk:
                    raise ConnectionResetError("the server ended in the middle of an object")
                passed += len(chunk)
                self._counted += len(chunk)
                COUNTER.pack_into(self._counter, 0, self._counted)
                writer.write(chunk)
                await writer.drain()
        finally:
            line = {"path": target.partition("?")[0], "first": first, "size_bytes": passed}
            self._lines.write(json.dumps(line) + "\n")


def is_object(target: str) -> bool:
    """True if a request's target names an object: `/bucket/key`, not a bucket."""
    return bool(target.partition("?")[0].strip("/").partition("/")[2])


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    while count:
        chunk = await reader.read(min(CHUNK_BYTES, count))
        if not chunk:
            raise ConnectionResetError("ended in the middle of a body")
        count -= len(chunk)
        writer.write(chunk)
        await writer.drain()
    await writer.drain()


async def _pass_chunks_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A chunked body, up to and with its end; trailers are not expected."""
    while True:
        line = await reader.readline()
        size = int(line.split(b";")[0], 16)
        writer.write(line)
        await _pass_on(reader, writer, size + len(b"\r\n"))
        if size == 0:
            return


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def _main(arguments: argparse.Namespace) -> None:
    proxy = CountingProxy(_host_and_port(arguments.upstream), FetchLog(Path(arguments.folder)))
    host, port = _host_and_port(arguments.listen)
    server = await asyncio.start_server(proxy.serve, host, port, limit=LARGEST_HEAD_BYTES, backlog=1024)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An HTTP proxy that counts the bytes of objects.")
    parser.add_argument("listen")
    parser.add_argument("upstream")
    parser.add_argument("folder")
    asyncio.run(_main(parser.parse_args()))
