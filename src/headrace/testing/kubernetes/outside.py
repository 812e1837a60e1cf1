"""A machine beside the nodes, on their network and not in the cluster: where a storage server of a test stands."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.netns.namespaces import make_namespace, remove_namespace
from headrace.netns.switch import DEVICE, plug_node
from headrace.testing.kubernetes.layout import Layout, Plan
from headrace.testing.kubernetes.node import add_route

_NAME = "outside"


class OutsideLink:
    """Its network namespace: a `StorageLink` that nodes, pods and this machine reach without anybody forwarding."""

    def __init__(self, layout: Layout, plan: Plan) -> None:
        addresses = plan.addresses
        self.server_address = str(addresses.outside)
        self.namespace = layout.namespace(_NAME)
        self.command_prefix: Sequence[str] = ("ip", "netns", "exec", self.namespace)
        make_namespace(self.namespace)
        interface = f"{self.server_address}/{addresses.machines.prefixlen}"
        plug_node(layout.switch, self.namespace, port=_NAME, interface=interface, gateway=str(addresses.host))
        for number in range(1, plan.nodes + 1):
            subnet, node = str(addresses.pods_of(number)), str(addresses.node(number))
            add_route(("ip", "-n", self.namespace), subnet, node, DEVICE)

    def publish(self, port: int) -> str:
        """`address:port` for clients."""
        return f"{self.server_address}:{port}"

    def received_bytes(self) -> int:
        raise NotImplementedError("this link counts nothing; use storage_link()")

    def close(self) -> None:
        """Removes the namespace, with what runs in it."""
        remove_namespace(self.namespace)
