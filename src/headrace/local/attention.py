"""The attention of the local backend: it also says whom a change of an object matters to."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headrace import attention
from headrace.local.reconciler import Dataset, Reconciler
from headrace.local.records import Reference


class Attention(attention.Attention):
    """Calls the reconciler. Runs in one event loop, and is used from there."""

    def __init__(self, reconciler: Reconciler) -> None:
        super().__init__(reconciler, logging.getLogger("headrace.local"))
        self._reconciler = reconciler

    def concerned(self, changed: Reference) -> Iterable[Dataset]:
        """The datasets that a change of an object may matter to. Any thread may ask."""
        return self._reconciler.concerned(changed)
