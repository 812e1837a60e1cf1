"""Virtual nodes: as root a network namespace each, plugged to one switch; otherwise an address of loopback each.

Every change is written down first, so that a process that starts after a kill finds it, and takes it over or away.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from headrace.api.times import format_time
from headrace.errors import CorruptDataError, MissingFileError, UnsupportedError
from headrace.local.protocol.messages import NodeChange, NodesWish, TaintLine
from headrace.local.store.database import Database
from headrace.netns.commands import CommandError
from headrace.netns.gateway import (
    DEVICE_PREFIX,
    TABLE_PREFIX,
    Gateway,
    can_lead_out,
    close_way,
    devices_to_guard,
    open_way,
)
from headrace.netns.lock import network_lock
from headrace.netns.loopback import lend_ports, open_loopback
from headrace.netns.namespaces import (
    can_make_namespaces,
    enter_prefix,
    make_namespace,
    namespaces,
    remove_namespace,
)
from headrace.netns.subnets import free_subnet
from headrace.netns.switch import limit_link, make_switch, plug_host, plug_node, unplug_host
from headrace.plan.observed import Taint
from headrace.trusted_folders import make_folder

_log = logging.getLogger("headrace.local")

PREFIX_LENGTH = 24
HOST_NAME_LABEL = "kubernetes.io/hostname"
_NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Network:
    """The network that the nodes of one backend are plugged to. Without a switch they are addresses of loopback.

    `table` has the rules of their way out; `guarded` are the devices of a machine
    that forwards for them alone.
    """

    subnet: str
    switch: str | None = None
    device: str | None = None
    is_made: bool = False
    table: str | None = None
    guarded: tuple[str, ...] | None = None

    def address_of(self, place: int) -> str:
        """The address of the node at a place, from 0."""
        return str(ipaddress.ip_network(self.subnet)[place + 1])

    @property
    def host_address(self) -> str:
        """The address of this machine, for what the nodes shall reach on it."""
        return str(ipaddress.ip_network(self.subnet)[-2]) if self.switch else "127.0.0.1"


@dataclass(frozen=True, slots=True)
class VirtualNode:
    """A node of the local backend."""

    name: str
    place: int
    address: str
    labels: Mapping[str, str]
    folder: Path
    namespace: str | None = None
    link_bits_per_s: int | None = None
    is_made: bool = False
    taints: tuple[Taint, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: str = ""

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words before a command that shall run on this node."""
        return enter_prefix(self.namespace) if self.namespace else ()

    def lend(self, ports: Iterable[int]) -> None:
        """Makes this machine's servers on loopback answer the node, too. Blocks. Raises `UnsupportedError`."""
        if self.namespace is None:
            return
        gateway = str(ipaddress.ip_network(f"{self.address}/{PREFIX_LENGTH}", strict=False)[-2])
        try:
            lend_ports(self.namespace, gateway, self.address, ports)
        except CommandError as error:
            raise UnsupportedError.of(f"{self.name} cannot be given a way to this machine: {error}") from None


class VirtualNodes:
    """The nodes of one backend. Its methods block for as long as `ip` takes."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._making = threading.Lock()

    def all(self) -> list[VirtualNode]:
        """The recorded nodes, in the order of their places."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT name, content FROM nodes").fetchall()
        return sorted((self._read(name, text) for name, text in rows), key=lambda node: node.place)

    def network(self) -> Network | None:
        """The network that they are plugged to; `None` before there are any."""
        text = self._database.fact(_NETWORK)
        if not text:
            return None
        content = json.loads(text)
        guarded = content.get("guarded")
        return Network(**{**content, "guarded": None if guarded is None else tuple(guarded)})

    def make(self, wish: NodesWish) -> list[VirtualNode]:
        """All nodes, after what is lacking was made: the wished ones, and those that are written down.

        Raises `UnsupportedError` when this machine cannot make them.
        """
        try:
            with self._making:
                with network_lock():
                    network = self._made_network(self.network() or self._new_network(wish))
                for node in list(self._wished(wish, network)):
                    self._make_node(node, network)
        except (CommandError, RuntimeError) as error:
            raise UnsupportedError.of(
                f"the virtual nodes cannot be made: {error}",
                hint="headrace down takes away what was made; headrace up --plain needs no namespaces",
            ) from None
        return self.all()

    def change(self, wish: NodeChange) -> VirtualNode:
        """Gives a node other labels, annotations or taints. Raises `MissingFileError`."""
        with self._making:
            node = next((node for node in self.all() if node.name == wish.name), None)
            if node is None:
                raise MissingFileError.of(f'nodes "{wish.name}" not found', hint="headrace get nodes")
            changed = replace(
                node,
                labels=_patched(node.labels, wish.labels),
                annotations=_patched(node.annotations, wish.annotations),
                taints=_tainted(node.taints, wish),
            )
            self._write_node(changed)
        return changed

    def remove(self) -> None:
        """Takes all of them away, with what runs on them, however far they were made."""
        for node in self.all():
            if node.namespace:
                remove_namespace(node.namespace)
        network = self.network()
        if network and network.switch:
            remove_namespace(network.switch)
            unplug_host(network.device or "")
            if network.table:
                with network_lock():
                    close_way(network.table, network.guarded)
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM nodes")
            connection.execute("DELETE FROM facts WHERE name = ?", (_NETWORK,))

    def _new_network(self, wish: NodesWish) -> Network:
        instance = self._database.instance
        if wish.plain or not can_make_namespaces():
            return Network(subnet=f"127.18.{int(instance[:4], 16) % 256}.0/{PREFIX_LENGTH}", is_made=True)
        subnet = free_subnet(PREFIX_LENGTH, start=int(instance, 16))
        # A device has at most 15 letters.
        network = Network(
            str(subnet),
            switch=f"headrace-local-{instance}-switch",
            device=f"{DEVICE_PREFIX}{instance}",
            table=f"{TABLE_PREFIX}{instance}" if can_lead_out() else None,
        )
        self._write_network(network)
        return network

    def _made_network(self, network: Network) -> Network:
        """The network with its switch there; a half-made one is made anew, and its nodes with it."""
        if network.switch is None:
            self._write_network(network)
            return network
        if network.is_made and network.switch in namespaces():
            return self._opened_network(network)
        for node in self.all():
            self._write_node(replace(node, is_made=False))
        self._write_network(replace(network, is_made=False))
        remove_namespace(network.switch)
        unplug_host(network.device or "")
        make_switch(network.switch)
        plug_host(network.switch, network.device or "", f"{network.host_address}/{PREFIX_LENGTH}")
        open_loopback(network.device or "")
        made = replace(self._opened_network(network), is_made=True)
        self._write_network(made)
        return made

    def _opened_network(self, network: Network) -> Network:
        """The network with its way out; again each time, since this machine may have come to another network."""
        if network.table is None or network.device is None:
            return network
        guarded = devices_to_guard() if network.guarded is None else network.guarded
        opened = replace(network, guarded=guarded)
        self._write_network(opened)
        open_way(Gateway(network.table, network.device, network.subnet), guarded)
        return opened

    def _wished(self, wish: NodesWish, network: Network) -> Iterator[VirtualNode]:
        """The nodes that there shall be. Labels and links of those that are there stay."""
        known = {node.place: node for node in self.all()}
        for place in range(max([wish.count, *(place + 1 for place in known)])):
            yield known.get(place) or self._new_node(place, wish, network)

    def _new_node(self, place: int, wish: NodesWish, network: Network) -> VirtualNode:
        name = f"node-{place + 1}"
        labels = {HOST_NAME_LABEL: name, **wish.labels, **wish.labels_of.get(name, {})}
        namespace = f"headrace-local-{self._database.instance}-{name}" if network.switch else None
        return VirtualNode(
            name,
            place,
            network.address_of(place),
            labels,
            self._folder / name,
            namespace,
            wish.link_bits_per_s if namespace else None,
            taints=tuple(_taint(line) for line in (*wish.taints, *wish.taints_of.get(name, ()))),
            created=format_time(datetime.now(UTC).replace(microsecond=0)),
        )

    def _make_node(self, node: VirtualNode, network: Network) -> None:
        make_folder(node.folder)
        if node.is_made and (node.namespace is None or node.namespace in namespaces()):
            return
        self._write_node(replace(node, is_made=False))
        if node.namespace and network.switch:
            remove_namespace(node.namespace)
            make_namespace(node.namespace)
            plug_node(
                network.switch,
                node.namespace,
                port=node.name,
                interface=f"{node.address}/{PREFIX_LENGTH}",
                gateway=network.host_address,
            )
            rate = node.link_bits_per_s
            limit_link(network.switch, node.namespace, port=node.name, sent=rate, received=rate)
        self._write_node(replace(node, is_made=True))
        _log.info("node/%s: made, %s", node.name, node.address)

    def _write_network(self, network: Network) -> None:
        self._database.note(_NETWORK, json.dumps(asdict(network)))

    def _write_node(self, node: VirtualNode) -> None:
        content = {**asdict(node), "folder": str(node.folder)}
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO nodes VALUES (?, ?)", (node.name, json.dumps(content)))

    def _read(self, name: str, text: str) -> VirtualNode:
        try:
            return self._node(json.loads(text))
        except (ValueError, TypeError, KeyError):
            # What it has on this machine, and what runs there, stands nowhere else.
            raise CorruptDataError.of(
                f"the row of node {name} in {self._database.path} cannot be read",
                hint="put a copy of that file in its place, or move its folder away and begin anew with headrace up",
            ) from None

    def _node(self, content: dict[str, object]) -> VirtualNode:
        content["folder"] = Path(str(content["folder"]))
        content["taints"] = tuple(Taint(**each) for each in content.get("taints", ()))  # type: ignore[attr-defined]
        return VirtualNode(**content)  # type: ignore[arg-type]


def _taint(line: TaintLine) -> Taint:
    return Taint(line.key, line.value, line.effect or "NoSchedule")


def _patched(present: Mapping[str, str], change: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**present, **change}
    return {key: value for key, value in merged.items() if value is not None}


def _tainted(present: tuple[Taint, ...], wish: NodeChange) -> tuple[Taint, ...]:
    """A taint is one by its key and effect; what is added takes the place of the one before."""
    gone = {(line.key, line.effect) for line in (*wish.taints, *wish.untaints)}
    kept = [each for each in present if not {(each.key, each.effect), (each.key, "")} & gone]
    return (*kept, *(_taint(line) for line in wish.taints))
