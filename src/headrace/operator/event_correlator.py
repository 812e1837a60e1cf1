"""The count of each event: the same one is written again at most now and then, with the number of times."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

_AGAIN_AFTER = timedelta(seconds=30)
_MOST = 2000


@dataclass(frozen=True, slots=True)
class EventSeries:
    """The first and last time of an event, and its count."""

    first: datetime
    last: datetime
    count: int = 1


@dataclass(slots=True)
class EventCorrelator:
    """Remembers the events that were told last."""

    _times: OrderedDict[str, EventSeries] = field(default_factory=OrderedDict)

    def next(self, event: str, now: datetime) -> EventSeries | None:
        """The record of an event that is to be told now; `None` when it was written a moment ago."""
        known = self._times.get(event)
        if known is not None and now - known.last < _AGAIN_AFTER:
            return None
        times = EventSeries(known.first, now, known.count + 1) if known else EventSeries(now, now)
        self._times[event] = times
        self._times.move_to_end(event)
        while len(self._times) > _MOST:
            self._times.popitem(last=False)
        return times
