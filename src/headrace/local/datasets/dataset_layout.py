"""The folders of the processes of one dataset, and the addresses under which they are reached."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import BusyError
from headrace.local.layout import BackendLayout
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.reconciler import Dataset as Key
from headrace.local.store.database import Database
from headrace.settings.addresses import format_address

_PREFIX = "address:"
_FIRST_PORT = 8700
_LAST_PORT = 29_999


@dataclass(frozen=True, slots=True)
class DatasetLayout:
    """The files of one dataset's processes, each in a folder of its own for its owner alone."""

    layout: BackendLayout
    key: Key

    @property
    def folder(self) -> Path:
        """Everything but mounts and logs."""
        return self.layout.folder / "datasets" / ".".join(self.key)

    @property
    def token(self) -> Path:
        """The token of its cluster."""
        return self.folder / "token"

    def role(self, role_id: str) -> Path:
        """Settings and secrets of one role."""
        return self.folder / "roles" / role_id

    def settings(self, role_id: str) -> Path:
        """The settings file of one role."""
        return self.role(role_id) / "settings.yaml"

    def state(self, role_id: str) -> Path:
        """The folder of one role's state. The master's stays with the dataset wherever the master runs."""
        return self.folder / "state" / role_id

    def mountpoint(self, node: VirtualNode) -> Path:
        """The folder on a node where programs see the files."""
        return node.folder / "mounts" / self.key[0] / self.key[1]

    def log(self, node: VirtualNode, role_id: str) -> Path:
        """The log of one role."""
        return node.folder / "logs" / f"{self.order_id(role_id)}.log"

    def order_id(self, role_id: str) -> str:
        """The name of the role among those of all datasets. Neither namespaces nor datasets have dots."""
        return ".".join((*self.key, role_id))


def layout_of(layout: BackendLayout, title: str) -> DatasetLayout:
    """Those of the dataset `namespace/name`."""
    namespace, _, name = title.partition("/")
    return DatasetLayout(layout, (namespace, name))


class Addresses:
    """Ports of roles, each written down before it is used, and kept for as long as the role stays on its node."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()

    def find(self, role: str) -> str | None:
        """`HOST:PORT` of a role that has one."""
        return self._database.fact(f"{_PREFIX}{role}") or None

    def take(self, role: str, node: VirtualNode) -> str:
        """`HOST:PORT` on a node. Raises `BusyError` when none is left there."""
        with self._lock:
            known = self.find(role)
            if known and known.rpartition(":")[0] == node.address:
                return known
            address = _free(node, self._taken())
            self._database.note(f"{_PREFIX}{role}", address)
            return address

    def give_back(self, role: str) -> None:
        """The role is no more."""
        if self.find(role) is None:
            return
        with self._lock, self._database.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (f"{_PREFIX}{role}",))

    def _taken(self) -> set[str]:
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT value FROM facts WHERE name GLOB ?", (f"{_PREFIX}*",)
            ).fetchall()
        return {address for (address,) in rows}


def _free(node: VirtualNode, taken: set[str]) -> str:
    for port in range(_FIRST_PORT, _LAST_PORT):
        address = format_address(node.address, port)
        # In a namespace of ours nobody else listens.
        if address not in taken and (node.namespace is not None or _is_free(node.address, port)):
            return address
    raise BusyError.of(f"no port is free on {node.name}", hint="end what listens there")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
