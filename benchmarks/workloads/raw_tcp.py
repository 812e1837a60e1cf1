"""What TCP itself carries from one node to another: a plain sendfile and a plain receive, and iperf3 where it is there.

The measure for reads from a peer: nothing of Headrace takes part. Also the program that runs on the two nodes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.testing.cluster import Node

MODULE = "benchmarks.workloads.raw_tcp"
CHECKOUT = Path(__file__).resolve().parents[2]
PORT = 5201
BUFFER_BYTES = 1 << 20
IPERF_S = 2
TIMEOUT_S = 120.0

_numbers = itertools.count()


@dataclass(frozen=True)
class Transfer:
    """What one transfer came to; processor seconds are those of both ends."""

    size_bytes: int
    seconds: float
    processor_s: float

    @property
    def bytes_per_s(self) -> float:
        return self.size_bytes / self.seconds


def sendfile(sender: Node, receiver: Node, path: Path, size_bytes: int) -> Transfer:
    """Sends a file again and again, until so many bytes have arrived; OSError when they have not."""
    environment = {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])}
    program = [sys.executable, "-m", MODULE]
    words: list[str | Path] = [*program, "send", sender.address, path, str(size_bytes)]
    server = sender.run(words, name=f"raw-tcp-{next(_numbers)}", environment=environment)
    server.wait_until(lambda: b"ready" in server.log_path.read_bytes())
    done = receiver.call([*program, "receive", sender.address], environment=environment, timeout_s=TIMEOUT_S)
    server.wait(TIMEOUT_S)
    if done.returncode != 0:
        raise OSError(f"the plain transfer failed: {done.stderr.strip()[-300:]}")
    received = json.loads(done.stdout)
    if received["size_bytes"] != size_bytes:
        raise OSError(f"the plain transfer brought {received['size_bytes']} of {size_bytes} bytes")
    sent = json.loads(server.log_path.read_text().strip().splitlines()[-1])
    return Transfer(size_bytes, received["seconds"], received["processor_s"] + sent["processor_s"])


def iperf3(sender: Node, receiver: Node) -> float | None:
    """Bytes a second by iperf3; None where it is not installed."""
    if shutil.which("iperf3") is None:
        return None
    server = sender.run(
        ["iperf3", "--server", "--one-off", "--bind", sender.address, "--port", str(PORT + 1)]
    )
    server.wait_until(lambda: b"listening" in server.log_path.read_bytes())
    words = [
        "--client",
        sender.address,
        "--port",
        str(PORT + 1),
        "--reverse",
        "--time",
        str(IPERF_S),
        "--json",
    ]
    done = receiver.call(["iperf3", *words], timeout_s=TIMEOUT_S)
    if done.returncode != 0:
        raise OSError(f"iperf3 failed: {done.stdout.strip()[-300:]}")
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 8


def _send(address: str, path: Path, size_bytes: int) -> None:
    with socket.create_server((address, PORT)) as listener, path.open("rb") as file:
        _tell("ready")
        connection, _ = listener.accept()
        with connection:
            length, left = os.fstat(file.fileno()).st_size, size_bytes
            while left:
                offset = (size_bytes - left) % length
                left -= os.sendfile(connection.fileno(), file.fileno(), offset, min(left, length - offset))
    _tell(json.dumps({"processor_s": time.process_time()}))


def _receive(address: str) -> None:
    buffer, size = bytearray(BUFFER_BYTES), 0
    with socket.create_connection((address, PORT)) as connection:
        start, before = time.perf_counter(), time.process_time()
        while count := connection.recv_into(buffer):
            size += count
    elapsed, used = time.perf_counter() - start, time.process_time() - before
    _tell(json.dumps({"size_bytes": size, "seconds": elapsed, "processor_s": used}))


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """The program of both nodes: `send ADDRESS FILE BYTES` or `receive ADDRESS`."""
    parser = argparse.ArgumentParser()
    ways = parser.add_subparsers(dest="way", required=True)
    send = ways.add_parser("send")
    send.add_argument("address")
    send.add_argument("path", type=Path)
    send.add_argument("size_bytes", type=int)
    ways.add_parser("receive").add_argument("address")
    chosen = parser.parse_args(arguments)
    if chosen.way == "send":
        _send(chosen.address, chosen.path, chosen.size_bytes)
    else:
        _receive(chosen.address)


if __name__ == "__main__":
    main()
