"""Shows pods the node's mount again after it was lost and made anew."""

from __future__ import annotations

import logging

from headrace.csi.publishing import Publishing
from headrace.errors import HeadraceError

_log = logging.getLogger("headrace.csi")


class Rebinding:
    """Looks at every published target path; each one whose mount is no longer the node's gets the new one over it."""

    def __init__(self, publishing: Publishing) -> None:
        self._publishing = publishing
        self._troubled: set[str] = set()
        self.count = 0

    async def reconcile(self) -> None:
        """One pass. A failure is reported once, and tried again at the next one."""
        for publication in self._publishing.state:
            try:
                done = await self._publishing.rebind(publication)
            except HeadraceError as error:
                if publication.target not in self._troubled:
                    _log.warning("volume/%s: not shown again yet: %s", publication.volume_id, error)
                self._troubled.add(publication.target)
                continue
            if done:
                self.count += 1
                self._troubled.discard(publication.target)
                _log.info("volume/%s: shown again at %s", publication.volume_id, publication.target)
