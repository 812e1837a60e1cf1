"""The members as the master knows them: who is in the view, and what each has reported last.

Pure: time comes in. Every change of the view is a new epoch. A master that lost its state learns members and epoch
back from heartbeats, and never uses an epoch again that a member has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.control.messages import Heartbeat, WorkerState
from headrace.errors import BusyError, MissingFileError


@dataclass(frozen=True)
class Member:
    """One worker of the view."""

    id: str
    address: str
    node: str
    weight: int
    joined_epoch: int
    draining: bool = False
    ordered_to_drain: bool = False
    lease_socket: str | None = None
    cached_bytes: int = 0

    def as_view(self) -> dict[str, Any]:
        """The member as the ring wants it."""
        return {
            "id": self.id,
            "address": self.address,
            "node": self.node,
            "weight": self.weight,
            "state": "draining" if self.draining else "active",
            "joined_epoch": self.joined_epoch,
            "cached_bytes": self.cached_bytes,
            "lease_socket": self.lease_socket,
        }


@dataclass
class _Heard:
    """What a member has said last, and when."""

    beat: Heartbeat
    at_s: float


class Roster:
    """The members of one cluster."""

    def __init__(self, *, replicas: int, dead_after_s: float) -> None:
        self.epoch = 0
        self._replicas = replicas
        self._dead_after_s = dead_after_s
        self._members: dict[str, Member] = {}
        self._heard: dict[str, _Heard] = {}
        self._restored_s: float | None = None

    def beat(self, beat: Heartbeat, now_s: float) -> bool:
        """Takes a heartbeat; true when the view changed. Raises `BusyError` for a second worker of the same id."""
        self._refuse_double(beat, now_s)
        if beat.state is WorkerState.LEFT:
            return self.remove(beat.id)
        self._heard[beat.id] = _Heard(beat, now_s)
        behind = beat.known_epoch > self.epoch
        if behind:
            # We forgot what this member saw: no epoch of then may be used for something else now.
            self.epoch = beat.known_epoch
        changed = self._put(beat)
        if behind and not changed:
            self.epoch += 1
        return changed or behind

    def tick(self, now_s: float) -> list[str]:
        """Removes members that have been silent for too long; their ids."""
        if self._restored_s is None:
            self._restored_s = now_s
        dead = [
            member_id
            for member_id in self._members
            if now_s - self._last_s(member_id, self._restored_s) > self._dead_after_s
        ]
        for member_id in dead:
            self.remove(member_id)
        return dead

    def remove(self, member_id: str) -> bool:
        """Takes a member out; true when it was one."""
        self._heard.pop(member_id, None)
        if self._members.pop(member_id, None) is None:
            return False
        self.epoch += 1
        return True

    def drain(self, member_id: str, *, cancel: bool) -> bool:
        """Orders a member to drain, or to stay; true when that is news. Raises `MissingFileError`."""
        member = self._members.get(member_id)
        if member is None:
            raise MissingFileError.of(
                f"there is no worker '{member_id}' in the cluster",
                hint="`headrace status --cluster URL` names them",
            )
        if member.ordered_to_drain != cancel:
            return False
        self._replace(member, ordered_to_drain=not cancel, draining=not cancel)
        return True

    def is_to_drain(self, member_id: str) -> bool:
        """True when the member was ordered to hand its blocks over."""
        member = self._members.get(member_id)
        return member is not None and member.ordered_to_drain

    def view(self) -> dict[str, Any]:
        """The view of this epoch, as the ring reads it."""
        members = [self._members[member_id].as_view() for member_id in sorted(self._members)]
        return {"epoch": self.epoch, "replicas": self._replicas, "members": members}

    def heard(self) -> Mapping[str, tuple[Member, Heartbeat | None, float | None]]:
        """Every member with its last heartbeat and when that came; none since the master started is `None`."""
        found: dict[str, tuple[Member, Heartbeat | None, float | None]] = {}
        for member_id in sorted(self._members):
            heard = self._heard.get(member_id)
            found[member_id] = (
                self._members[member_id],
                heard.beat if heard else None,
                heard.at_s if heard else None,
            )
        return found

    def dump(self) -> dict[str, Any]:
        """What survives a restart."""
        members = [
            {**member.as_view(), "ordered_to_drain": member.ordered_to_drain}
            for member in self._members.values()
        ]
        return {"epoch": self.epoch, "members": members}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Takes back what `dump` gave. Members get their full time to report before they are taken for dead."""
        self.epoch = int(saved.get("epoch", 0))
        for each in saved.get("members", ()):
            fields = {name: value for name, value in each.items() if name in Member.__dataclass_fields__}
            member = Member(**fields, draining=each.get("state") == "draining")
            self._members[member.id] = member

    def _refuse_double(self, beat: Heartbeat, now_s: float) -> None:
        heard = self._heard.get(beat.id)
        if heard is None or heard.beat.instance == beat.instance or heard.beat.address == beat.address:
            return
        if now_s - heard.at_s < self._dead_after_s / 2:
            raise BusyError.of(
                f"another worker '{beat.id}' reports from {heard.beat.address}",
                hint="give each worker an id of its own",
            )

    def _put(self, beat: Heartbeat) -> bool:
        known = self._members.get(beat.id)
        draining = beat.state is WorkerState.DRAINING or (known is not None and known.ordered_to_drain)
        facts: dict[str, Any] = {
            "address": beat.address,
            "node": beat.node,
            "weight": beat.capacity_bytes,
            "lease_socket": beat.lease_socket,
            "draining": draining,
        }
        if known is None:
            self.epoch += 1
            self._members[beat.id] = Member(
                id=beat.id, joined_epoch=self.epoch, cached_bytes=beat.cached_bytes, **facts
            )
            return True
        if all(getattr(known, name) == value for name, value in facts.items()):
            return False
        self._replace(known, cached_bytes=beat.cached_bytes, **facts)
        return True

    def _replace(self, member: Member, **facts: Any) -> None:
        self.epoch += 1
        self._members[member.id] = replace(member, **facts)

    def _last_s(self, member_id: str, restored_s: float) -> float:
        heard = self._heard.get(member_id)
        return heard.at_s if heard else restored_s
