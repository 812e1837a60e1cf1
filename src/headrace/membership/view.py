"""The view: what readers get. Its JSON is that of `crates/engine/src/ring/view.rs` (docs/format/placement.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class ViewMember:
    """One worker, as everybody sees it."""

    id: str
    address: str
    node: str
    weight: int
    state: Literal["active", "draining"]
    joined_epoch: int
    cached_bytes: int
    lease_socket: str | None

    def placement(self) -> tuple[object, ...]:
        """Everything that an epoch stands for: two views of one epoch agree in it."""
        return (
            self.id,
            self.address,
            self.node,
            self.weight,
            self.state,
            self.joined_epoch,
            self.lease_socket,
        )


@dataclass(frozen=True, slots=True)
class View:
    """The workers at one epoch, by their ids."""

    epoch: int
    replicas: int
    members: tuple[ViewMember, ...]

    def to_json(self) -> str:
        """The text that readers parse."""
        document = {"epoch": self.epoch, "replicas": self.replicas, "members": documents_of(self.members)}
        return json.dumps(document, separators=(",", ":"))

    def places_like(self, other: View) -> bool:
        """True if readers of both do the same, whatever the epochs are."""
        if self.replicas != other.replicas or len(self.members) != len(other.members):
            return False
        pairs = zip(self.members, other.members, strict=True)
        return all(mine.placement() == theirs.placement() for mine, theirs in pairs)


def documents_of(members: Iterable[ViewMember]) -> list[dict[str, Any]]:
    """Members for JSON. `asdict` takes five times as long, which counts when there are ten thousand of them."""
    names = ViewMember.__slots__
    return [{name: getattr(member, name) for name in names} for member in members]


def member_of(document: Mapping[str, Any]) -> ViewMember:
    """The inverse of a member's JSON. Raises `TypeError` for missing or unknown keys."""
    return ViewMember(**document)
