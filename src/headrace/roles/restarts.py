"""How often a mount process that ends unexpectedly is started again. Pure: times in, a decision out."""

from __future__ import annotations

from dataclasses import dataclass

QUICK_S = 1.0
"""A process that served for less than this has not helped anybody."""
_PAUSES_S = (0.0, 0.2, 1.0, 3.0)


@dataclass
class Restarts:
    """The starts of one mount so far."""

    count: int = 0
    quick_in_a_row: int = 0

    def note_end(self, served_s: float | None) -> float | None:
        """The pause before the next start, in seconds; `None`: give up. `served_s`: how long the process that has ended
        had served; `None`: it never did.
        """
        if served_s is not None and served_s >= QUICK_S:
            self.quick_in_a_row = 0
        else:
            self.quick_in_a_row += 1
        if self.quick_in_a_row > len(_PAUSES_S):
            return None
        self.count += 1
        return _PAUSES_S[max(self.quick_in_a_row - 1, 0)]

    def note_replacement(self) -> None:
        """A process was replaced because somebody wished so."""
        self.count += 1
        self.quick_in_a_row = 0
