"""The parts of a mount that a supervisor keeps, so that the next mount process can go on with it."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from headrace.roles.mountpoint.detaching import abort, detach, device_at
from headrace.roles.mountpoint.mount_table import MountEntry, mount_at


class Keepable(Protocol):
    """A mount that another process can go on with."""

    @property
    def mountpoint(self) -> str: ...
    def keep(self) -> tuple[str, int, int, int | None]: ...
    def send_through(self, relay: int) -> None: ...


@dataclass(frozen=True)
class Kept:
    """The state that a successor needs. `words` are for it alone."""

    words: str
    connection: int
    ledger: int
    name: str
    mountpoint: str
    device: str
    log_file: str | None
    apart: int | None = None
    """Of a view: what the content of further lists is mounted from."""

    @classmethod
    def of(cls, mount: Keepable, name: str, log_file: Path | None) -> Kept:
        """The state that its process gives away. The descriptors are the caller's."""
        words, connection, ledger, apart = mount.keep()
        device = device_at(mount.mountpoint) or ""
        log = str(log_file) if log_file else None
        return cls(words, connection, ledger, name, mount.mountpoint, device, log, apart)

    @property
    def descriptors(self) -> list[int]:
        """The descriptors for another process, in the order in which they are sent."""
        return [each for each in (self.connection, self.ledger, self.apart) if each is not None]

    @property
    def facts(self) -> dict[str, Any]:
        """All but the descriptors, to be sent with them."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in ("connection", "ledger", "apart")
        }

    @classmethod
    def received(cls, facts: Mapping[str, Any], descriptors: Sequence[int]) -> Kept:
        """The state that was sent as `facts` with `descriptors`, which belong to the receiver."""
        connection, ledger, *apart = descriptors
        return cls(**facts, connection=connection, ledger=ledger, apart=apart[0] if apart else None)

    def is_unmounted(self) -> bool:
        """True when the kernel has ended the connection."""
        return is_ended(self.connection)

    def seen_as(self, entry: MountEntry) -> Kept:
        """The same for a successor in another mount namespace, where the kernel has another number for the mount."""
        words = json.loads(self.words) | {"mount_id": entry.id}
        return replace(self, words=json.dumps(words))

    def abort(self) -> bool:
        """Ends the connection, whoever holds it and hangs in it; false when this process has no right to."""
        # The number of one that has ended may be another mount's by now.
        return self.is_unmounted() or abort(json.loads(self.words).get("connection") or self.device)

    def let_go(self) -> bool:
        """Ends the connection, so that nobody waits any longer, and takes what is left of the mount off its folder.

        False when something is left.
        """
        # Closing alone does not do: a relay that the kernel holds has the connection open, too, and so has a keeper. In
        # a container the kernel's switch may be out of reach; then unmounting by force ends the connection.
        aborted = self.abort()
        for descriptor in (self.connection, self.apart):
            if descriptor is not None:
                os.close(descriptor)
        return detach(self.mountpoint, self._device_now(), force=not aborted)

    def _device_now(self) -> str:
        """A view has another one with each list that it shows."""
        there, words = mount_at(self.mountpoint), json.loads(self.words)
        is_view = (
            there is not None
            and there.is_ours
            and words.get("connection")
            and there.source == words["source"]
        )
        return there.device if there is not None and is_view else self.device


def is_ended(connection: int) -> bool:
    """True when the kernel has ended the connection behind a descriptor of /dev/fuse."""
    poll = select.poll()
    poll.register(connection, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
