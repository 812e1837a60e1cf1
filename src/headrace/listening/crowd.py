"""The connections of a listener, and who has to go when there are too many.

A *stranger* is a connection that has not proved that it knows the token. Strangers have bounds of their own, so that
there is always room for members. When one more is too many, the oldest stranger of the address with the most goes: who
opens many connections loses them, and not who opens one. Pure: it says whom to close, and closes nobody.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

_C = TypeVar("_C", bound=Hashable)
_SITE_BITS = 64


@dataclass(frozen=True)
class Bounds:
    """Bounds for the connections of a listener."""

    connections: int = 8192
    strangers: int = 2048
    strangers_of_address: int = 1024
    """Hundreds of members behind one node's address, each with a few connections, begin at the same moment."""
    held_bytes: int = 16 << 20
    """Of requests and answers of all strangers together."""

    def within(self, files: int) -> Bounds:
        """The same for a process that may open so many files: connections leave it some for its work."""
        return replace(
            self,
            connections=min(self.connections, files * 3 // 4),
            strangers=min(self.strangers, files // 2),
            strangers_of_address=min(self.strangers_of_address, files // 3),
        )


class Crowd(Generic[_C]):
    """The connections that there are."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._address: dict[_C, str] = {}
        # In the order in which they came, by address.
        self._strangers: dict[str, dict[_C, None]] = {}
        self._stranger_count = 0
        # In the order in which they began to hold something.
        self._held: dict[_C, int] = {}
        self._held_of_address: Counter[str] = Counter()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._address)

    def __iter__(self) -> Iterator[_C]:
        return iter(tuple(self._address))

    @property
    def strangers(self) -> int:
        """Number of those that have not proved anything."""
        return self._stranger_count

    @property
    def held_bytes(self) -> int:
        """Memory that strangers hold."""
        return self._held_bytes

    def arrive(self, who: _C, address: str) -> list[_C]:
        """One more; those that have to go for it, which may be itself."""
        site = site_of(address)
        self._address[who] = site
        here = self._strangers.setdefault(site, {})
        here[who] = None
        self._stranger_count += 1
        if len(here) > self._bounds.strangers_of_address:
            return [next(iter(here))]
        if self._stranger_count > self._bounds.strangers or len(self._address) > self._bounds.connections:
            return self.oldest()
        return []

    def oldest(self) -> list[_C]:
        """The oldest stranger of the address with the most, if there are strangers."""
        if not self._strangers:
            return []
        most = max(self._strangers, key=lambda site: len(self._strangers[site]))
        return [next(iter(self._strangers[most]))]

    def is_stranger(self, who: _C) -> bool:
        """True for one that has not proved anything."""
        return who in self._strangers.get(self._address.get(who, ""), {})

    def prove(self, who: _C) -> None:
        """It is a member from now on: nothing of what it holds counts."""
        self.hold(who, 0)
        here = self._strangers.get(self._address.get(who, ""), {})
        if who in here:
            del here[who]
            self._stranger_count -= 1
            if not here:
                del self._strangers[self._address[who]]

    def hold(self, who: _C, size_bytes: int) -> list[_C]:
        """It holds so much now; those that have to go for it."""
        site = self._address.get(who)
        if site is None:
            return []
        change = size_bytes - self._held.get(who, 0)
        self._held_bytes += change
        self._held_of_address[site] += change
        if size_bytes:
            self._held[who] = size_bytes
        else:
            self._held.pop(who, None)
            if not self._held_of_address[site]:
                del self._held_of_address[site]
        return self._too_much(who)

    def _too_much(self, who: _C) -> list[_C]:
        """The oldest who hold something, of the addresses that hold most, until the rest is little enough."""
        over = self._held_bytes - self._bounds.held_bytes
        if over <= 0:
            return []
        found: list[_C] = []
        left = self._held_of_address.copy()
        while over > 0:
            others = [each for each in self._held if each is not who and each not in found]
            if not others:
                break
            most = max(left[self._address[each]] for each in others)
            one = next(each for each in others if left[self._address[each]] == most)
            found.append(one)
            left[self._address[one]] -= self._held[one]
            over -= self._held[one]
        return found

    def leave(self, who: _C) -> None:
        """It is gone."""
        if who in self._address:
            self.prove(who)
            del self._address[who]


def site_of(address: str) -> str:
    """An address as strangers are counted by it: of IPv6 the network, since a machine has all of one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _SITE_BITS), strict=False).network_address)
