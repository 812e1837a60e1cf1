"""What a supervisor keeps of a mount, so that the next mount process can go on with it."""

from __future__ import annotations

import json
import os
import select
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from headrace.roles.detaching import abort, detach, device_at
from headrace.roles.mount_table import MountEntry


class Keepable(Protocol):
    """A mount that another process can go on with."""

    @property
    def mountpoint(self) -> str: ...
    def keep(self) -> tuple[str, int, int]: ...
    def send_through(self, relay: int) -> None: ...


@dataclass(frozen=True)
class Kept:
    """What a successor needs. `words` are for it alone."""

    words: str
    connection: int
    ledger: int
    name: str
    mountpoint: str
    device: str
    log_file: str | None

    @classmethod
    def of(cls, mount: Keepable, name: str, log_file: Path | None) -> Kept:
        """What its process gives away. The descriptors are the caller's."""
        words, connection, ledger = mount.keep()
        device = device_at(mount.mountpoint) or ""
        return cls(
            words, connection, ledger, name, mount.mountpoint, device, str(log_file) if log_file else None
        )

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
        os.close(self.connection)
        return detach(self.mountpoint, self.device, force=not aborted)


def is_ended(connection: int) -> bool:
    """True when the kernel has ended the connection behind a descriptor of /dev/fuse."""
    poll = select.poll()
    poll.register(connection, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
