"""A descriptor that a listener keeps for the moment in which its process has no other.

A process that is out of descriptors can accept nobody: probes wait in the kernel and find it dead, and a loop that asks
for the next connection asks without end. With the spare one, one more comes in, and is answered.
"""

from __future__ import annotations

import contextlib
import os


class Spare:
    """One descriptor, held or lent."""

    def __init__(self) -> None:
        self._held: int | None = None
        self.renew()

    def lend(self) -> bool:
        """Frees it for the next connection; false when it is lent already."""
        if self._held is None:
            return False
        os.close(self._held)
        self._held = None
        return True

    def renew(self) -> None:
        """Takes one back, if there is one now."""
        if self._held is None:
            with contextlib.suppress(OSError):
                self._held = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Holds none any more."""
        self.lend()
