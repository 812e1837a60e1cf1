"""The link between a client and the storage: limited in rate, with its bytes counted.

`storage_link(rate)` gives the truest kind the rights allow. As root it is a network namespace (the storage
machine) behind a veth pair with `tc tbf` on the storage side's egress; else a rate-limiting TCP proxy. A
server starts with the link's `command_prefix`, binds `server_address`, and clients connect to
`publish(port)`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from headrace.testing.rate_proxy import RateProxy

# 198.18.0.0/15 is set aside for benchmarks of network devices (RFC 2544): no real network has it.
TEST_NETWORK = ipaddress.ip_network("198.18.0.0/15")
NAMESPACE_NAME = re.compile(r"headrace-(?P<pid>\d+)-(?P<start>\d+)-(?P<number>\d+)")
# A bucket of 2 ms of the rate, but never below one 64 KiB segment: tbf drops what is larger than its bucket.
BURST_S = 0.002
MINIMUM_BURST_BYTES = 131_072
QUEUE_LATENCY = "50ms"

_numbers = itertools.count()


class StorageLink(Protocol):
    """What a server and its clients need to know of the link between them."""

    server_address: str
    command_prefix: Sequence[str]

    def publish(self, port: int) -> str:
        """`address:port` for clients of a server that binds this port of `server_address`."""

    def received_bytes(self) -> int:
        """Bytes that came from the storage side so far, with protocol headers where the link sees them."""

    def close(self) -> None: ...


class LoopbackLink:
    """No limit and no counter: the server listens on loopback."""

    server_address = "127.0.0.1"
    command_prefix: Sequence[str] = ()

    def publish(self, port: int) -> str:
        return f"{self.server_address}:{port}"

    def received_bytes(self) -> int:
        raise NotImplementedError("a loopback link counts nothing; use storage_link()")

    def close(self) -> None: ...


class ProxyLink:
    """A TCP proxy that limits what the storage sends; needs no rights. Counts payload bytes only."""

    server_address = "127.0.0.1"
    command_prefix: Sequence[str] = ()

    def __init__(self, rate_bits_per_s: int | None) -> None:
        """`None` counts without a limit."""
        self._rate_bits_per_s = rate_bits_per_s
        self._proxies: list[RateProxy] = []

    def publish(self, port: int) -> str:
        proxy = RateProxy(f"{self.server_address}:{port}", rate_bits_per_s=self._rate_bits_per_s)
        self._proxies.append(proxy)
        return proxy.address

    def received_bytes(self) -> int:
        return sum(proxy.received_bytes() for proxy in self._proxies)

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class NamespaceLink:
    """A network namespace behind a veth pair. Counts bytes on the wire, headers included (1 %)."""

    def __init__(self, rate_bits_per_s: int | None) -> None:
        remove_stale_namespaces()
        number = next(_numbers)
        self.namespace = f"headrace-{os.getpid()}-{_start_time(os.getpid())}-{number}"
        # At most 15 letters; a pid has at most seven digits.
        self._host_device, self._storage_device = f"hr{os.getpid()}h{number}", f"hr{os.getpid()}s{number}"
        self.command_prefix: Sequence[str] = ("ip", "netns", "exec", self.namespace)
        self._closed = False
        try:
            self._build(rate_bits_per_s)
        except BaseException:
            self.close()
            raise

    def _build(self, rate_bits_per_s: int | None) -> None:
        host_address, self.server_address = _free_address_pair()
        host, storage = self._host_device, self._storage_device
        _run("ip", "netns", "add", self.namespace)
        _run("ip", "link", "add", host, "type", "veth", "peer", "name", storage, "netns", self.namespace)
        _run("ip", "address", "add", f"{host_address}/30", "dev", host)
        _run("ip", "link", "set", host, "up")
        _run("ip", "-n", self.namespace, "address", "add", f"{self.server_address}/30", "dev", storage)
        _run("ip", "-n", self.namespace, "link", "set", storage, "up")
        _run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        if rate_bits_per_s is not None:
            self.set_rate(rate_bits_per_s)

    def set_rate(self, rate_bits_per_s: int) -> None:
        """Limits what the storage sends from now on."""
        burst = max(int(rate_bits_per_s / 8 * BURST_S), MINIMUM_BURST_BYTES)
        shaping = ("tbf", "rate", f"{rate_bits_per_s}bit", "burst", str(burst), "latency", QUEUE_LATENCY)
        _run("tc", "-n", self.namespace, "qdisc", "replace", "dev", self._storage_device, "root", *shaping)

    def publish(self, port: int) -> str:
        return f"{self.server_address}:{port}"

    def received_bytes(self) -> int:
        return int(Path(f"/sys/class/net/{self._host_device}/statistics/rx_bytes").read_text())

    def close(self) -> None:
        """Ends what runs in the namespace and removes it. Safe to call twice."""
        if not self._closed:
            self._closed = True
            _remove_namespace(self.namespace)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def storage_link(rate_bits_per_s: int | None) -> NamespaceLink | ProxyLink:
    """The truest link that the rights allow; `None` counts without a limit."""
    return NamespaceLink(rate_bits_per_s) if can_make_namespaces() else ProxyLink(rate_bits_per_s)


def can_make_namespaces() -> bool:
    return os.geteuid() == 0 and Path("/proc/self/ns/net").exists()


def remove_stale_namespaces() -> None:
    """Removes what test processes that are gone left behind, by the pid and start time in the name."""
    for name in _namespaces():
        match = NAMESPACE_NAME.fullmatch(name)
        if match and _start_time(int(match["pid"])) != int(match["start"]):
            _remove_namespace(name)


def _remove_namespace(name: str) -> None:
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    # The veth pair goes with the namespace. An error here means that it is gone already.
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _namespaces() -> Iterator[str]:
    listed = subprocess.run(["ip", "-j", "netns", "list"], capture_output=True, text=True, check=True)
    yield from (entry["name"] for entry in json.loads(listed.stdout or "[]"))


def _start_time(pid: int) -> int:
    """The process's start in clock ticks since boot, 0 when it is gone; tells a reused pid apart."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(after_name.split()[19])


def _free_address_pair() -> tuple[str, str]:
    """The two addresses of a /30 in the test network that no interface here has; spread by pid."""
    listed = subprocess.run(["ip", "-j", "address"], capture_output=True, text=True, check=True)
    taken = {address["local"] for device in json.loads(listed.stdout) for address in device["addr_info"]}
    count = TEST_NETWORK.num_addresses // 4
    first = (os.getpid() * 61 + next(_numbers)) % count
    for offset in range(count):
        base = int(TEST_NETWORK.network_address) + (first + offset) % count * 4
        pair = str(ipaddress.ip_address(base + 1)), str(ipaddress.ip_address(base + 2))
        if not taken.intersection(pair):
            return pair
    raise RuntimeError(f"every address of {TEST_NETWORK} is taken here")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
