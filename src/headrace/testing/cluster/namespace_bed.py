"""The true bed: each node a network namespace with a veth to a bridge in a switch namespace. Needs root.

This machine has an address on the switch, too, so that a test can talk to what runs on the nodes. Only the network is
apart: files and mounts of the nodes are those of this machine.
"""

from __future__ import annotations

import json
import os

from headrace.netns.commands import run_command
from headrace.netns.lock import network_lock
from headrace.netns.namespaces import (
    end_processes,
    enter_prefix,
    make_namespace,
    remove_namespace,
    remove_stale_namespaces,
)
from headrace.netns.owners import numbers, owned_name
from headrace.netns.subnets import free_subnet
from headrace.netns.switch import limit_link, make_switch, plug_host, plug_node
from headrace.testing.cluster.bed import Bed, Capability
from headrace.testing.cluster.node import LinkBytes, Node

PREFIX_LENGTH = 24
# The last usable address is this machine's; nodes count from the first.
MOST_NODES = 2 ** (32 - PREFIX_LENGTH) - 4


class NamespaceBed(Bed):
    """Nodes with links that can be cut, limited and counted."""

    capabilities = frozenset(Capability)

    def _join(self) -> None:
        self._namespaces: list[str] = []
        remove_stale_namespaces()
        self._switch = self._new_name("switch")
        make_switch(self._switch)
        with network_lock():
            self._subnet = free_subnet(PREFIX_LENGTH, start=os.getpid() * 61 + next(numbers))
            self.host_address = str(self._subnet.broadcast_address - 1)
            # At most 15 letters; a pid has at most seven digits.
            device = f"hr{os.getpid()}b{self.number}"
            plug_host(self._switch, device, f"{self.host_address}/{PREFIX_LENGTH}")

    def _make_node(self, name: str, place: int) -> Node:
        if place >= MOST_NODES:
            raise ValueError(f"a bed has at most {MOST_NODES} nodes")
        namespace, address = self._new_name(name), str(self._subnet.network_address + 1 + place)
        make_namespace(namespace)
        plug_node(self._switch, namespace, port=name, interface=f"{address}/{PREFIX_LENGTH}")
        link = VethLink(namespace, self._switch, port=name)
        return Node(
            name,
            address,
            self.folder / name,
            prefix=enter_prefix(namespace),
            link=link,
            clear=lambda: end_processes(namespace),
        )

    def _part(self) -> None:
        for namespace in reversed(self._namespaces):
            remove_namespace(namespace)

    def _new_name(self, label: str) -> str:
        """Remembered before anything of that name is made."""
        name = owned_name(self.number, label)
        self._namespaces.append(name)
        return name


class VethLink:
    """The two ends of a node's cable: `eth0` on the node, a port of the node's name on the switch."""

    def __init__(self, namespace: str, switch: str, *, port: str) -> None:
        self._namespace = namespace
        self._switch = switch
        self._port = port

    def down(self) -> None:
        run_command("ip", "-n", self._switch, "link", "set", "dev", self._port, "down")

    def up(self) -> None:
        run_command("ip", "-n", self._switch, "link", "set", "dev", self._port, "up")

    def set_rate(self, sent: int | None, received: int | None) -> None:
        limit_link(self._switch, self._namespace, port=self._port, sent=sent, received=received)

    def counted(self) -> LinkBytes:
        """By the switch: what a node wanted to send and its limit threw away was never on the cable."""
        shown = run_command("ip", "-n", self._switch, "-s", "-j", "link", "show", "dev", self._port)
        counters = json.loads(shown)[0]["stats64"]
        return LinkBytes(received=counters["tx"]["bytes"], sent=counters["rx"]["bytes"])
