"""The mounts that the keeper holds for the supervisors of a node: pure bookkeeping, times come in.

Each mountpoint has at most one supervisor that looks after it, known by its connection, and at most one deposit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headrace.errors import BusyError
from headrace.roles.keeper.messages import Deposit

MOST = 1024


@dataclass
class Held:
    """A deposit with its two descriptors."""

    deposit: Deposit
    connection: int
    ledger: int
    away_since_s: float | None = None
    """Since when no supervisor looks after the mount."""

    def close(self) -> None:
        """Gives the descriptors up. If nobody else has them, the mount is dead now."""
        os.close(self.connection)
        os.close(self.ledger)


@dataclass
class Deposits:
    """All that is held, and who looks after what. An owner is anything that can be told from others."""

    held: dict[str, Held] = field(default_factory=dict)
    owners: dict[str, object] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Held]:
        return iter(tuple(self.held.values()))

    def claim(self, mountpoint: str, owner: object) -> Held | None:
        """Makes `owner` the one who looks after a mountpoint; what is held of it. Raises `BusyError`."""
        present = self.owners.get(mountpoint)
        if present is not None and present is not owner:
            raise BusyError.of(f"another supervisor looks after {mountpoint}")
        self.owners[mountpoint] = owner
        found = self.held.get(mountpoint)
        if found is not None:
            found.away_since_s = None
        return found

    def put(self, held: Held, owner: object) -> None:
        """Keeps a deposit in place of an earlier one of its mountpoint. Raises `BusyError`."""
        mountpoint = held.deposit.mountpoint
        if mountpoint not in self.held and len(self.held) >= MOST:
            raise BusyError.of(f"{MOST} mounts are held already")
        before = self.claim(mountpoint, owner)
        self.held[mountpoint] = held
        if before is not None:
            before.close()

    def withdraw(self, owner: object) -> list[str]:
        """Forgets what `owner` has deposited; the mountpoints."""
        mine = [mountpoint for mountpoint, each in self.owners.items() if each is owner]
        for mountpoint in mine:
            if (found := self.held.pop(mountpoint, None)) is not None:
                found.close()
        return mine

    def leave(self, owner: object, now_s: float) -> list[Held]:
        """Notes that `owner` is gone; what is left without anybody who looks after it."""
        mine = [mountpoint for mountpoint, each in self.owners.items() if each is owner]
        left = []
        for mountpoint in mine:
            del self.owners[mountpoint]
            if (found := self.held.get(mountpoint)) is not None:
                found.away_since_s = now_s
                left.append(found)
        return left

    def overdue(
        self, now_s: float, unused_s: float, stranded_s: float, is_used: Callable[[str], bool]
    ) -> list[Held]:
        """Mounts that nobody has looked after for too long: `unused_s` when nothing uses them, else `stranded_s`."""
        found = []
        for each in self:
            if each.away_since_s is None:
                continue
            limit_s = stranded_s if is_used(each.deposit.mountpoint) else unused_s
            if limit_s > 0 and now_s - each.away_since_s >= limit_s:
                found.append(each)
        return found

    def drop(self, held: Held) -> None:
        """Forgets one deposit."""
        if self.held.get(held.deposit.mountpoint) is held:
            del self.held[held.deposit.mountpoint]
        held.close()

    @property
    def unattended(self) -> int:
        """The number of mounts that nobody looks after now."""
        return sum(each.away_since_s is not None for each in self)
