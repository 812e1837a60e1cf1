"""The belongings of a cluster: its names, its folders and its addresses. All follows from the state folder.

So whoever knows the folder can take everything of a cluster away, also when its maker died before it wrote a word.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from headrace.netns.subnets import free_subnet

PREFIX_LENGTH = 20
"""Of a cluster: one /24 of machines, one /22 of services, room for a thousand, and one /24 of pods for each node."""

MOST_NODES = 8
API_PORT = 6443
DOMAIN = "cluster.local"
NODES = "nodes"
"""The folder of the nodes' folders, in the state folder."""
_FILE = "cluster.json"
_CLAIM = ".headrace-kubernetes"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses in the cluster's subnet."""

    subnet: IPv4Network

    @property
    def machines(self) -> IPv4Network:
        return next(self.subnet.subnets(new_prefix=24))

    @property
    def services(self) -> IPv4Network:
        return list(self.subnet.subnets(new_prefix=22))[1]

    @property
    def pods(self) -> IPv4Network:
        """Of all nodes."""
        return list(self.subnet.subnets(new_prefix=21))[1]

    @property
    def host(self) -> IPv4Address:
        """This machine, as nodes and pods reach it."""
        return self.machines.broadcast_address - 1

    @property
    def control(self) -> IPv4Address:
        return self.machines.network_address + 2

    @property
    def outside(self) -> IPv4Address:
        """A machine that is no node: a storage server's."""
        return self.machines.broadcast_address - 2

    @property
    def kubernetes_service(self) -> IPv4Address:
        return self.services.network_address + 1

    @property
    def name_service(self) -> IPv4Address:
        return self.services.network_address + 10

    def node(self, number: int) -> IPv4Address:
        """Nodes count from 1."""
        return self.machines.network_address + 10 + number

    def pods_of(self, number: int) -> IPv4Network:
        """The pods of one node."""
        return list(self.pods.subnets(new_prefix=24))[number - 1]


@dataclass(frozen=True, slots=True)
class Layout:
    """A cluster's state folder, and what is called after it."""

    folder: Path

    @property
    def identity(self) -> str:
        """Eight letters, the same for the same folder."""
        return hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:8]

    @property
    def instance(self) -> str:
        """The mark of the cluster's processes."""
        return f"kubernetes-{self.identity}"

    @property
    def device(self) -> str:
        """This machine's device on the cluster's switch."""
        return f"hrk{self.identity}"

    @property
    def switch(self) -> str:
        return self.namespace("switch")

    @property
    def control(self) -> str:
        return self.namespace("control")

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def namespaces_prefix(self) -> str:
        return f"headrace-kube-{self.identity}-"

    def namespace(self, label: str) -> str:
        """The name of a network namespace."""
        return f"{self.namespaces_prefix}{label}"

    def node_folder(self, name: str) -> Path:
        return self.folder / NODES / name

    @property
    def cgroup(self) -> str:
        """Below it runs everything of the cluster."""
        return f"headrace-kube-{self.identity}"

    @property
    def system_cgroup(self) -> str:
        """Of what is no pod."""
        return f"{self.cgroup}/system"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan that a cluster was made by; kept in its folder."""

    addresses: Addresses
    nodes: int

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(node_name(number) for number in range(1, self.nodes + 1))


def node_name(number: int) -> str:
    return f"node-{number}"


def choose_plan(layout: Layout, nodes: int) -> Plan:
    """A plan with addresses that nothing on this machine has."""
    if not 1 <= nodes <= MOST_NODES:
        raise ValueError(f"a cluster has 1 to {MOST_NODES} nodes, not {nodes}")
    return Plan(Addresses(free_subnet(PREFIX_LENGTH, start=int(layout.identity, 16))), nodes)


def claim(layout: Layout) -> None:
    """Makes the folder, and notes in it that it is a cluster's."""
    layout.folder.mkdir(parents=True, exist_ok=True)
    (layout.folder / _CLAIM).touch()


def is_claimed(layout: Layout) -> bool:
    return any((layout.folder / name).exists() for name in (_CLAIM, _FILE))


def write_plan(layout: Layout, plan: Plan) -> None:
    (layout.folder / _FILE).write_text(
        json.dumps({"subnet": str(plan.addresses.subnet), "nodes": plan.nodes})
    )


def read_plan(layout: Layout) -> Plan | None:
    """`None` where no cluster is."""
    try:
        known = json.loads((layout.folder / _FILE).read_text())
        return Plan(Addresses(IPv4Network(known["subnet"])), int(known["nodes"]))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
