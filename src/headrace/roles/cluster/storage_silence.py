"""The storage's answers to a worker, by what its engine counts: tries and bytes."""

from __future__ import annotations

import re

_RETRIES = re.compile(r"^headrace_origin_retries_total (\d+)", re.MULTILINE)
# Pauses between tries are shorter. Who has not tried for so long does not know any more.
_FORGOTTEN_S = 90.0


class Silence:
    """Since when requests to the storage are tried again and again while no byte arrives."""

    def __init__(self) -> None:
        self._retries = 0
        self._bytes = 0
        self._since_s: float | None = None
        self._tried_s = 0.0

    def observe(self, metrics: str, origin_bytes: int, now_s: float) -> float:
        """Seconds of asking in vain; 0 when the storage answers, or is not asked."""
        found = _RETRIES.search(metrics)
        retries = int(found[1]) if found else 0
        if retries > self._retries:
            self._tried_s = now_s
            self._since_s = now_s if self._since_s is None else self._since_s
        if origin_bytes > self._bytes or now_s - self._tried_s > _FORGOTTEN_S:
            self._since_s = None
        self._retries, self._bytes = retries, origin_bytes
        return 0.0 if self._since_s is None else now_s - self._since_s
