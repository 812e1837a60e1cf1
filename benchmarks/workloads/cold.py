"""What a reader of a bucket waits for when nothing is cached, and what the bucket itself takes for the same."""

from __future__ import annotations

import contextlib
import http.client
import statistics
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.native import FileLoop
from benchmarks.settings import MEBIBYTE
from headrace.testing.s3_client import S3Client

FIRST_BYTES = 4096


def cold_bytes_per_s(
    loop: FileLoop, files: Sequence[Path], *, threads: int, bytes_each: int, limit_s: float
) -> float:
    """`threads` readers share the files, 1 MiB at a time; bytes a second of all together."""
    result = loop.run(
        "sequential", files, seconds=limit_s, threads=threads, block_bytes=MEBIBYTE, limit_bytes=bytes_each
    )
    return result.bytes / result.seconds


def first_byte_ms(loop: FileLoop, files: Sequence[Path], *, limit_s: float) -> float:
    """The median of open + read of the first 4 KiB, each file once."""
    return loop.run("first", files, seconds=limit_s, latency=True).median_us / 1000


def get_seconds(client: S3Client, bucket: str, key: str, size_bytes: int) -> float:
    """How long a plain GET of the first bytes of an object takes."""
    start = time.perf_counter()
    reply = client.request("GET", f"/{bucket}/{key}", headers={"Range": f"bytes=0-{size_bytes - 1}"})
    if len(reply.body) != size_bytes:
        raise OSError(f"the bucket gave {len(reply.body)} of {size_bytes} bytes of {key}")
    return time.perf_counter() - start


class KeptConnection(S3Client):
    """A plain client that keeps its connection and signs before the clock runs: the bucket's own time, no more."""

    def __init__(self, client: S3Client) -> None:
        self.__dict__.update(client.__dict__)
        self._connection = http.client.HTTPConnection(self._host, timeout=30)

    def first_bytes_seconds(self, path: str) -> float:
        """One ranged GET; OSError for an answer that is no success."""
        quoted = urllib.parse.quote(path, safe="/-_.~")
        headers = {"Range": f"bytes=0-{FIRST_BYTES - 1}", **self._signed_headers("GET", quoted, "")}
        start = time.perf_counter()
        self._connection.request("GET", quoted, headers=headers)
        answer = self._connection.getresponse()
        answer.read()
        elapsed = time.perf_counter() - start
        if answer.status not in (200, 206):
            raise OSError(f"the bucket answered {answer.status} to a GET of {path}")
        return elapsed

    def close(self) -> None:
        self._connection.close()


def origin_first_byte_ms(client: S3Client, bucket: str, keys: Sequence[str]) -> float:
    """The median of a GET of the first 4 KiB, straight from the bucket over one connection."""
    with contextlib.closing(KeptConnection(client)) as connection:
        times = [connection.first_bytes_seconds(f"/{bucket}/{key}") for key in keys]
    return statistics.median(times) * 1000


def list_objects_per_s(endpoint: str, bucket: str, prefix: str) -> tuple[int, float]:
    """One connection that asks page after page: what a simple lister reaches. Count and objects a second.

    Unsigned; only for the listing server, which checks no signatures. Parses no more than it must.
    """
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(endpoint).netloc, timeout=30)
    fields = {"list-type": "2", "prefix": prefix, "max-keys": "1000"}
    count, start = 0, time.perf_counter()
    while True:
        connection.request("GET", f"/{bucket}?{urllib.parse.urlencode(fields)}")
        page = connection.getresponse().read().decode()
        count += page.count("<Key>")
        _, _, rest = page.partition("<NextContinuationToken>")
        if not rest:
            break
        fields["continuation-token"] = rest.partition("<")[0]
    connection.close()
    return count, count / (time.perf_counter() - start)
