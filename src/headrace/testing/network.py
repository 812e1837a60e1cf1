"""The link between a client and the storage: limited in rate, with its bytes counted.

`storage_link(rate)` gives the truest kind the rights allow. As root it is a network namespace (the storage
machine) behind a veth pair with `tc tbf` on the storage side's egress; else a rate-limiting TCP proxy. A
server starts with the link's `command_prefix`, binds `server_address`, and clients connect to
`publish(port)`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from headrace.netns.commands import run_command
from headrace.netns.lock import network_lock
from headrace.netns.namespaces import (
    can_make_namespaces,
    make_namespace,
    remove_namespace,
    remove_stale_namespaces,
)
from headrace.netns.owners import numbers, owned_name
from headrace.netns.rates import limit_rate
from headrace.netns.subnets import free_subnet
from headrace.testing.rate_proxy import RateProxy


class StorageLink(Protocol):
    """The link between a server and its clients, as both need to know it."""

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
        number = next(numbers)
        self.namespace = owned_name(number)
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
        with network_lock():
            self._plug(free_subnet(30, start=os.getpid() * 61 + next(numbers)))
        if rate_bits_per_s is not None:
            self.set_rate(rate_bits_per_s)

    def _plug(self, subnet: IPv4Network) -> None:
        host_address, self.server_address = map(str, subnet.hosts())
        host, storage = self._host_device, self._storage_device
        make_namespace(self.namespace)
        run_command(
            "ip", "link", "add", host, "type", "veth", "peer", "name", storage, "netns", self.namespace
        )
        run_command("ip", "address", "add", f"{host_address}/30", "dev", host)
        run_command("ip", "link", "set", host, "up")
        run_command("ip", "-n", self.namespace, "address", "add", f"{self.server_address}/30", "dev", storage)
        run_command("ip", "-n", self.namespace, "link", "set", storage, "up")

    def set_rate(self, rate_bits_per_s: int) -> None:
        """Limits what the storage sends from now on."""
        limit_rate(self.namespace, self._storage_device, rate_bits_per_s)

    def publish(self, port: int) -> str:
        return f"{self.server_address}:{port}"

    def received_bytes(self) -> int:
        return int(Path(f"/sys/class/net/{self._host_device}/statistics/rx_bytes").read_text())

    def close(self) -> None:
        """Ends what runs in the namespace and removes it. Safe to call twice."""
        if not self._closed:
            self._closed = True
            remove_namespace(self.namespace)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def storage_link(rate_bits_per_s: int | None) -> NamespaceLink | ProxyLink:
    """The truest link that the rights allow; `None` counts without a limit."""
    return NamespaceLink(rate_bits_per_s) if can_make_namespaces() else ProxyLink(rate_bits_per_s)
