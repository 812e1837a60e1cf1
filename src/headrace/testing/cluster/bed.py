"""A bed: nodes joined by a switch, and a storage node. As root each is a network namespace, else an address of lo.

`open_bed(4)` gives the truest bed that the rights allow. Several stand side by side; each is gone when it is closed,
and what a killed one left behind goes when the next is opened.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.netns.owners import numbers
from headrace.testing.cluster.folders import make_bed_folder, remove_bed_folder
from headrace.testing.cluster.node import Node, UnsupportedError

LOG_TAIL_BYTES = 3000


class Capability(enum.Enum):
    """An ability that a bed may lack; the value says what it is, for a person."""

    LINKS = "links that can be cut, limited and counted"
    SMALL_DISKS = "disks of a chosen size"


class Bed(abc.ABC):
    """Nodes `node-0`, `node-1`, … and `storage`. Closing it ends every process and removes every trace."""

    capabilities: frozenset[Capability] = frozenset()
    host_address: str
    """This machine's own address, as the nodes reach it."""

    def __init__(self, nodes: int, *, base: Path | None = None) -> None:
        self.number = next(numbers)
        self.folder = make_bed_folder(self.number, base)
        self.nodes: list[Node] = []
        self._made: list[Node] = []
        self._closed = False
        try:
            self._join()
            self.storage = self.add_node("storage")
            self.add_nodes(nodes)
        except BaseException:
            self.close()
            raise

    @abc.abstractmethod
    def _join(self) -> None:
        """Makes what joins the nodes."""

    @abc.abstractmethod
    def _make_node(self, name: str, place: int) -> Node:
        """A node; places are 0, 1, 2, … and give the address."""

    @abc.abstractmethod
    def _part(self) -> None:
        """Removes what `_join` and `_make_node` made, however far they came."""

    def add_nodes(self, count: int) -> Sequence[Node]:
        """More nodes, of the next numbers."""
        first = len(self.nodes)
        for number in range(first, first + count):
            self.nodes.append(self.add_node(f"node-{number}"))
        return self.nodes[first:]

    def add_node(self, name: str) -> Node:
        """A node beside the others, as the storage is one: for what is no compute node."""
        node = self._make_node(name, len(self._made))
        self._made.append(node)
        return node

    def need(self, capability: Capability) -> None:
        """UnsupportedError unless the bed has it."""
        if capability not in self.capabilities:
            raise UnsupportedError(f"this needs {capability.value}, and they need root")

    def log_tails(self) -> str:
        """The ends of all logs, for the report of a failure."""
        parts = []
        for path in sorted(self.folder.glob("*/logs/*.log")):
            tail = path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
            if tail:
                parts.append(f"--- {path.relative_to(self.folder)}\n{tail}")
        return "\n".join(parts)

    def close(self) -> None:
        """Ends every process, unmounts, and removes nodes and folder. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        for node in self._made:
            node.close()
        self._part()
        remove_bed_folder(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
