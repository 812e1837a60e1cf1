"""A mount process's view of its supervisor, which it may not have: what it was left by the process before, and what it
leaves for the next one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.roles.keeper.keeping import Keepable, Kept
from headrace.roles.supervision import lifeline
from headrace.roles.supervision.lifeline import Lifeline, Message

ALONE = "alone"
"""The event that the supervisor has died."""


@dataclass(frozen=True)
class Beginning:
    """How this process begins."""

    supervisor_pid: int | None = None
    restarts: int = 0
    reason: str | None = None
    kept: tuple[str, int, int, int | None] | None = None
    """What an earlier process left, if this one shall go on with its mount."""
    relay: int | None = None
    """A packet socket to the supervisor, which sends invalidations (see `relay`)."""


class Supervision:
    """Talks to the supervisor; without one, does nothing."""

    def __init__(self, line: Lifeline | None = None) -> None:
        self._line = line
        self._had_line = line is not None
        self._keeps = False
        self._relay: int | None = None

    @property
    def keeps(self) -> bool:
        """True when another process would go on, should this one end."""
        return self._keeps and self._line is not None

    def begin(self) -> Beginning:
        """Waits for the supervisor's first word."""
        message = self._line.receive() if self._line is not None else None
        if message is None:
            self._line = None
            return Beginning()
        words = message.words
        relay, *descriptors = message.descriptors
        kept = None
        if words["kept"] is not None:
            connection, ledger, *apart = descriptors
            kept = (words["kept"], connection, ledger, apart[0] if apart else None)
            self._keeps = True
        self._relay = relay if kept is None else None
        return Beginning(words["supervisor"], words["restarts"], words["reason"], kept, relay)

    def keep(self, mount: Keepable, name: str, log_file: Path | None) -> None:
        """Gives the supervisor what the next process needs, and lets it send to the kernel."""
        if self._line is None:
            return
        kept = Kept.of(mount, name, log_file)
        self._keeps = self._line.send(Message(lifeline.KEPT, kept.facts, kept.descriptors))
        for descriptor in kept.descriptors:
            os.close(descriptor)
        if self._relay is not None:
            mount.send_through(self._relay)
            self._relay = None

    def tell(self, kind: str) -> bool:
        """Says how things are: SERVING, ANSWERED, HANDED_OVER, ENDED or UNCLOSED. False when nobody hears it."""
        return self._line is not None and self._line.send(Message(kind))

    def watch(self, put: Callable[[str], None]) -> None:
        """Calls `put` with each request of the supervisor, from a thread of its own; with ALONE when it has died."""
        if self._line is not None:
            threading.Thread(
                target=self._watch, args=(self._line, put), name="supervision", daemon=True
            ).start()
        elif self._had_line:
            put(ALONE)

    def _watch(self, line: Lifeline, put: Callable[[str], None]) -> None:
        while message := line.receive():
            put(message.kind)
        self._line = None
        put(ALONE)
