"""What a supervisor keeps of a mount, so that the next mount process can go on with it."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass

from headrace.roles.detaching import abort, detach


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

    def is_unmounted(self) -> bool:
        """True when the kernel has ended the connection."""
        poll = select.poll()
        poll.register(self.connection, 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))

    def abort(self) -> None:
        """Ends the connection, whoever holds it and hangs in it."""
        abort(self.device)

    def let_go(self) -> bool:
        """Ends the connection, so that nobody waits any longer, and takes what is left of the mount off its folder.

        False when something is left.
        """
        # Closing alone does not do: a relay that the kernel holds has the connection open, too.
        self.abort()
        os.close(self.connection)
        return detach(self.mountpoint, self.device)
