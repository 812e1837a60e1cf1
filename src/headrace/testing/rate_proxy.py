"""A TCP proxy that limits and counts what the far side sends; the link of those without root.

Runs as a process of its own, so that its work does not take the interpreter lock of the test. Knows no
protocol.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import struct
import sys
import tempfile
from pathlib import Path

from headrace.testing.processes import ServerProcess, free_port

CHUNK_BYTES = 65_536
# What may be sent at once after a pause, in seconds of the rate: as small as asyncio's timers are exact.
BURST_S = 0.004
COUNTER = struct.Struct("<Q")


class RateProxy:
    """A running proxy in front of `upstream` ("host:port"); clients connect to `address`."""

    def __init__(self, upstream: str, *, rate_bits_per_s: int | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-proxy-")
        folder = Path(self._folder.name)
        counter_path = folder / "received"
        counter_path.write_bytes(COUNTER.pack(0))
        self.address = f"127.0.0.1:{free_port()}"
        rate = ["--rate", str(rate_bits_per_s)] if rate_bits_per_s else []
        command = [sys.executable, "-m", __name__, self.address, upstream, str(counter_path), *rate]
        self._process = ServerProcess(command, log_path=folder / "log")
        self._counter_path = counter_path
        self._process.wait_until(lambda: b"ready" in (folder / "log").read_bytes())

    def received_bytes(self) -> int:
        """Payload bytes that the far side sent so far."""
        return int(COUNTER.unpack(self._counter_path.read_bytes())[0])

    def close(self) -> None:
        self._process.stop()
        self._folder.cleanup()


class Bucket:
    """Hands out permission to send, at `bytes_per_s` in all; None means no limit."""

    def __init__(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0

    async def take(self, count: int) -> None:
        if self._bytes_per_s is None:
            return
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now - BURST_S) + count / self._bytes_per_s
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


class Proxy:
    """Copies both directions of each connection; counts and limits what comes from the far side."""

    def __init__(self, upstream: tuple[str, int], bucket: Bucket, counter: mmap.mmap) -> None:
        self._upstream = upstream
        self._bucket = bucket
        self._counter = counter
        self._received = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._upstream, limit=CHUNK_BYTES)
        except OSError:
            writer.close()
            return
        directions = (self._send(reader, far_writer), self._receive(far_reader, writer))
        await asyncio.gather(*directions, return_exceptions=True)

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                writer.write(chunk)
                await writer.drain()
        finally:
            writer.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                await self._bucket.take(len(chunk))
                self._received += len(chunk)
                COUNTER.pack_into(self._counter, 0, self._received)
                writer.write(chunk)
                await writer.drain()
        finally:
            writer.close()


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def _main(arguments: argparse.Namespace) -> None:
    with Path(arguments.counter).open("r+b") as file, mmap.mmap(file.fileno(), COUNTER.size) as counter:
        bucket = Bucket(arguments.rate / 8 if arguments.rate else None)
        proxy = Proxy(_host_and_port(arguments.upstream), bucket, counter)
        host, port = _host_and_port(arguments.listen)
        server = await asyncio.start_server(proxy.serve, host, port, limit=CHUNK_BYTES, backlog=1024)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="A TCP proxy that limits and counts what the far side sends."
    )
    parser.add_argument("listen")
    parser.add_argument("upstream")
    parser.add_argument("counter")
    parser.add_argument("--rate", type=int, default=0, help="bits per second; 0 for no limit")
    asyncio.run(_main(parser.parse_args()))
