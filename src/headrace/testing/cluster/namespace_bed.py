"""The true bed: each node a network namespace with a veth to a bridge in a switch namespace. Needs root.

This machine has an address on the switch, too, so that a test can talk to what runs on the nodes. Only the network is
apart: files and mounts of the nodes are those of this machine.
"""

from __future__ import annotations

import json
import os

from headrace.testing.cluster.bed import Bed, Capability
from headrace.testing.cluster.node import LinkBytes, Node
from headrace.testing.namespaces import (
    end_processes,
    free_subnet,
    limit_rate,
    make_namespace,
    owned_name,
    remove_namespace,
    remove_stale_namespaces,
    run_command,
)

PREFIX_LENGTH = 24
DEVICE = "eth0"
BRIDGE = "bridge"
# The last usable address is this machine's; nodes count from the first.
MOST_NODES = 2 ** (32 - PREFIX_LENGTH) - 4


class NamespaceBed(Bed):
    """Nodes with links that can be cut, limited and counted."""

    capabilities = frozenset(Capability)

    def _join(self) -> None:
        self._namespaces: list[str] = []
        remove_stale_namespaces()
        self._subnet = free_subnet(PREFIX_LENGTH)
        self._switch = self._new_namespace("switch")
        run_command("ip", "-n", self._switch, "link", "add", BRIDGE, "type", "bridge")
        run_command("ip", "-n", self._switch, "link", "set", BRIDGE, "up")
        # At most 15 letters; a pid has at most seven digits.
        device = f"hr{os.getpid()}b{self.number}"
        run_command(
            "ip", "link", "add", device, "type", "veth", "peer", "name", "host", "netns", self._switch
        )
        self.host_address = str(self._subnet.broadcast_address - 1)
        run_command("ip", "address", "add", f"{self.host_address}/{PREFIX_LENGTH}", "dev", device)
        run_command("ip", "link", "set", device, "up")
        self._plug_in("host")

    def _make_node(self, name: str, place: int) -> Node:
        if place >= MOST_NODES:
            raise ValueError(f"a bed has at most {MOST_NODES} nodes")
        namespace, address = self._new_namespace(name), str(self._subnet.network_address + 1 + place)
        # Not `ip netns exec`: it would give each process mounts of its own, which nobody else sees.
        prefix = ("nsenter", f"--net=/run/netns/{namespace}")
        link = VethLink(namespace, self._switch, port=name)
        run_command(
            *("ip", "-n", self._switch, "link", "add", "name", name, "type", "veth"),
            *("peer", "name", DEVICE, "netns", namespace),
        )
        # No address of version 6: its neighbour discovery would be counted with the data.
        run_command("ip", "-n", namespace, "link", "set", DEVICE, "addrgenmode", "none")
        run_command("ip", "-n", namespace, "address", "add", f"{address}/{PREFIX_LENGTH}", "dev", DEVICE)
        run_command("ip", "-n", namespace, "link", "set", DEVICE, "up")
        self._plug_in(name)
        return Node(
            name,
            address,
            self.folder / name,
            prefix=prefix,
            link=link,
            clear=lambda: end_processes(namespace),
        )

    def _part(self) -> None:
        for namespace in reversed(self._namespaces):
            remove_namespace(namespace)

    def _new_namespace(self, label: str) -> str:
        name = owned_name(self.number, label)
        self._namespaces.append(name)
        make_namespace(name)
        return name

    def _plug_in(self, port: str) -> None:
        run_command("ip", "-n", self._switch, "link", "set", "dev", port, "addrgenmode", "none")
        run_command("ip", "-n", self._switch, "link", "set", "dev", port, "master", BRIDGE, "up")


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
        limit_rate(self._namespace, DEVICE, sent)
        limit_rate(self._switch, self._port, received)

    def counted(self) -> LinkBytes:
        """By the switch: what a node wanted to send and its limit threw away was never on the cable."""
        shown = run_command("ip", "-n", self._switch, "-s", "-j", "link", "show", "dev", self._port)
        counters = json.loads(shown)[0]["stats64"]
        return LinkBytes(received=counters["tx"]["bytes"], sent=counters["rx"]["bytes"])
