"""The reachability of the master: told once when that changes, and as a metric; never a line for each try."""

from __future__ import annotations

import logging

from headrace.errors import HeadraceError


class Reachability:
    """The facts that one process knows of its master."""

    def __init__(self, log: logging.Logger, name: str, master: str) -> None:
        self._log, self._name, self._master = log, name, master
        self._reason: str | None = None

    @property
    def is_lost(self) -> bool:
        """True while the master does not answer."""
        return self._reason is not None

    def lost(self, error: HeadraceError) -> None:
        """A question went without an answer."""
        if error.message != self._reason:
            self._log.warning("%s: going on without the master: %s", self._name, error.message)
        self._reason = error.message

    def found(self) -> None:
        """A question was answered."""
        if self._reason is not None:
            self._log.info("%s: the master %s answers again", self._name, self._master)
        self._reason = None

    def metrics(self, name: str) -> str:
        """A gauge in the OpenMetrics format."""
        value = int(self.is_lost)
        return f"# HELP {name} 1 while the master does not answer.\n# TYPE {name} gauge\n{name} {value}\n"
