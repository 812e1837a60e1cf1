"""Publishes volumes at target paths, one call at a time for each: what NodePublishVolume and its reverse mean."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

from headrace.csi import binding
from headrace.csi.node_folder import NodeFolder
from headrace.csi.state import State
from headrace.csi.volume_requests import Publication, PublishedOtherwiseError
from headrace.errors import BusyError, DeadlineError, MissingFileError
from headrace.roles.mountpoint.apart import Health, Usage, ask, health_of
from headrace.roles.mountpoint.mount_table import MountEntry, mount_at, place_of

_log = logging.getLogger("headrace.csi")
_POLL_S = 0.25


class Publishing:
    """The publications on this node."""

    def __init__(self, folder: NodeFolder, state: State) -> None:
        self.folder = folder
        self.state = state
        self._busy: set[str] = set()

    async def publish(self, wanted: Publication, left_s: Callable[[], float]) -> None:
        """Returns when the volume is at its target path. `left_s` tells for how long it may still be waited.

        Raises `PublishedOtherwiseError`, `BusyError` while another call is at that path, `DeadlineError` when there was
        no living mount in time, `MissingFileError` for a `sub_path` that is not there, and what `binding` raises.
        """
        with self._alone(wanted.target):
            known = self.state.get(wanted.target)
            if known is not None and known != wanted:
                raise PublishedOtherwiseError.of(
                    f"{wanted.target} shows another volume, or shows it otherwise"
                )
            if known is not None and self.is_current(known):
                return
            await self._wait_for_mount(wanted.dataset, left_s)
            await asyncio.to_thread(self._put, wanted, known)
        _log.info("volume/%s: %s at %s", wanted.volume_id, wanted.dataset, wanted.target)

    async def unpublish(self, volume_id: str, target: str) -> None:
        """Returns when nothing is at the target path; raises `BusyError` and `MissingFileError`."""
        with self._alone(target):
            known = self.state.get(target)
            if known is not None and known.volume_id != volume_id:
                raise MissingFileError.of(f"another volume is published at {target}")
            await asyncio.to_thread(binding.unbind, target)
            self.state.remove(target)
        _log.info("volume/%s: no longer at %s", volume_id, target)

    async def rebind(self, publication: Publication) -> bool:
        """Binds the node's present mount over a target path that shows an earlier one; false when there was no need."""
        if publication.target in self._busy or not self.is_outdated(publication):
            return False
        with self._alone(publication.target):
            mountpoint = self.folder.mountpoint(publication.dataset)
            if await asyncio.to_thread(health_of, mountpoint) is not Health.ANSWERS:
                return False
            await asyncio.to_thread(binding.bind, publication, mountpoint)
        return True

    async def usage(self, volume_id: str, path: str) -> tuple[Health, Usage | None]:
        """How the volume at a target path does, and its size; raises `MissingFileError` when there is none."""
        known = self.state.get(path)
        if known is None or known.volume_id != volume_id or self._at(path) is None:
            raise MissingFileError.of(f"the volume is not published at {path}")
        return await asyncio.to_thread(ask, path)

    def is_current(self, publication: Publication) -> bool:
        """True when the target path shows the mount that the node has now."""
        now, there = self._mount_of(publication), self._at(publication.target)
        return now is not None and there is not None and now.device == there.device

    def is_outdated(self, publication: Publication) -> bool:
        """True when the target path shows a mount of ours that is not the one the node has now."""
        now, there = self._mount_of(publication), self._at(publication.target)
        return now is not None and there is not None and there.is_ours and now.device != there.device

    def uses(self, mountpoint: str) -> bool:
        """True when a volume of this mount is published."""
        return any(place_of(self.folder.mountpoint(each.dataset)) == mountpoint for each in self.state)

    def forget_vanished(self) -> list[Publication]:
        """Forgets publications whose target path went away with the machine's last run; those."""
        gone = [
            each for each in self.state if self._at(each.target) is None and not binding.is_there(each.target)
        ]
        for each in gone:
            self.state.remove(each.target)
        return gone

    def _put(self, wanted: Publication, known: Publication | None) -> None:
        there = self._at(wanted.target)
        if there is not None and not there.is_ours:
            raise BusyError.of(f"something else is mounted at {wanted.target}")
        if there is not None and known is None:
            # Of a driver that forgot what it shows. Whoever uses it has it in a mount namespace of his own.
            binding.unbind(wanted.target)
        binding.prepare(wanted.target)
        # Noted first: after a kill in between, unpublishing finds what there is to take away.
        self.state.put(wanted)
        try:
            binding.bind(wanted, self.folder.mountpoint(wanted.dataset))
        except BaseException:
            if known is None:
                binding.unbind(wanted.target)
                self.state.remove(wanted.target)
            raise

    async def _wait_for_mount(self, dataset: str, left_s: Callable[[], float]) -> None:
        mountpoint = self.folder.mountpoint(dataset)
        why = "there is no mount"
        while (left := left_s()) > 0:
            there = mount_at(place_of(mountpoint))
            if there is not None and there.is_ours:
                health = await asyncio.to_thread(health_of, mountpoint, min(left, 3.0))
                if health is Health.ANSWERS:
                    return
                why = "its process is away" if health is Health.SILENT else "its process has died"
            await asyncio.sleep(min(_POLL_S, max(left_s(), 0)))
        raise DeadlineError.of(f"the mount of {dataset} is not ready on this node: {why}")

    @contextlib.contextmanager
    def _alone(self, target: str) -> Iterator[None]:
        if target in self._busy:
            raise BusyError.of(f"another call is at {target}", hint="call again when it has ended")
        self._busy.add(target)
        try:
            yield
        finally:
            self._busy.discard(target)

    def _mount_of(self, publication: Publication) -> MountEntry | None:
        there = mount_at(place_of(self.folder.mountpoint(publication.dataset)))
        return there if there is not None and there.is_ours else None

    @staticmethod
    def _at(target: str) -> MountEntry | None:
        return mount_at(place_of(target))
