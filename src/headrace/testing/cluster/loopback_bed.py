"""The bed of those without root: nodes are addresses of the loopback network, and their links are out of reach."""

from __future__ import annotations

import os
from typing import NoReturn

from headrace.testing.cluster.bed import Bed
from headrace.testing.cluster.node import LinkBytes, Node, UnsupportedError

# 127.0.0.0/8 is all this machine; a part for each bed, away from 127.0.x.y where resolvers and others listen.
FIRST_PART, PARTS = 256 * 16, 256 * 224
MOST_NODES = 250


class LoopbackBed(Bed):
    """Nodes with an address of their own, on one machine's loopback."""

    def _join(self) -> None:
        part = FIRST_PART + (os.getpid() * 61 + self.number) % PARTS
        self._network = f"127.{part // 256}.{part % 256}"
        self.host_address = "127.0.0.1"

    def _make_node(self, name: str, place: int) -> Node:
        if place >= MOST_NODES:
            raise ValueError(f"a bed has at most {MOST_NODES} nodes")
        return Node(name, f"{self._network}.{place + 1}", self.folder / name, link=NoLink())

    def _part(self) -> None:
        """Nothing: there is only the folder."""


class NoLink:
    """Says that there is no link to control."""

    def down(self) -> NoReturn:
        raise UnsupportedError("loopback cannot be cut; links need root")

    def up(self) -> NoReturn:
        raise UnsupportedError("loopback cannot be cut; links need root")

    def set_rate(self, sent: int | None, received: int | None) -> NoReturn:  # noqa: ARG002
        raise UnsupportedError("loopback cannot be limited; links need root")

    def counted(self) -> LinkBytes:
        raise UnsupportedError("loopback counts nothing for a node; links need root")
