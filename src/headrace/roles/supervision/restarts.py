"""The limit of restarts of a mount process that ends unexpectedly. Pure: times in, a decision out."""

from __future__ import annotations

from dataclasses import dataclass

QUICK_S = 1.0
"""A process that served for less than this has not helped anybody."""
_PAUSES_S = (0.0, 0.2, 1.0, 3.0)
_MOST_AFTER_KILLS_S = 1.0
"""Who is killed from outside is awaited by readers and would serve them well: the pause only keeps a machine calm."""


@dataclass
class Restarts:
    """The starts of one mount so far."""

    count: int = 0
    quick_in_a_row: int = 0
    """Ends of its own doing: too many of them, and there will be no other."""
    killed_in_a_row: int = 0
    """Those that somebody else brought about. However many there are, the next one starts."""

    def note_end(self, served_s: float | None, *, killed: bool) -> float | None:
        """The pause before the next start, in seconds; `None`: give up. `served_s`: how long the process that has ended
        had served; `None`: it never did. `killed`: somebody else ended it.
        """
        if served_s is not None and served_s >= QUICK_S:
            self.quick_in_a_row = self.killed_in_a_row = 0
        elif killed:
            self.killed_in_a_row += 1
        else:
            self.quick_in_a_row += 1
        if self.quick_in_a_row > len(_PAUSES_S):
            return None
        self.count += 1
        return max(_pause_s(self.quick_in_a_row), min(_pause_s(self.killed_in_a_row), _MOST_AFTER_KILLS_S))

    def note_replacement(self) -> None:
        """A process was replaced because somebody wished so."""
        self.count += 1
        self.quick_in_a_row = self.killed_in_a_row = 0


def _pause_s(in_a_row: int) -> float:
    return _PAUSES_S[min(max(in_a_row, 1), len(_PAUSES_S)) - 1]
