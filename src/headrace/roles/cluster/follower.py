"""A mount as a member of a cluster: how it follows the master's views and snapshots.

The master is asked and told, never needed: without it the mount goes on by what it knew last.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from headrace.control.client import ControlClient
from headrace.control.fetching import fetch_snapshot
from headrace.control.messages import MountHeartbeat, Outlook, SnapshotNote, Traffic
from headrace.control.outlooks import carried_on, epoch_of, last_outlook, save_outlook, with_earlier
from headrace.engine.cluster import continue_snapshot
from headrace.engine.handles import Engine
from headrace.engine.status import ReadReport
from headrace.errors import CorruptDataError, HeadraceError, MissingFileError
from headrace.roles.cluster.first_outlook import POLL_S
from headrace.roles.cluster.reachability import Reachability
from headrace.roles.messages import MemberSpec
from headrace.settings.engine import EngineConfig

_log = logging.getLogger("headrace.mount")

_RETRY_S = 2.0
_REPORT_EVERY_S = 10.0
_OF_THIS_ONE = (MissingFileError, CorruptDataError)
"""What is wrong with one snapshot alone, and not with the master."""


def traffic_of(reads: ReadReport) -> Traffic:
    """The sources of the bytes that a mount gave to programs."""
    # What is read ahead, or warmed, comes from a worker first, and is read later.
    handed_out = reads.hit_bytes + reads.miss_bytes
    peer_bytes = min(reads.cluster_bytes, handed_out)
    # A file that the kernel reads itself is on this machine.
    local_bytes = handed_out - peer_bytes + reads.passthrough_estimated_bytes
    return Traffic(local_bytes=local_bytes, peer_bytes=peer_bytes)


class Follower:
    """Keeps an engine with its cluster, in a thread of its own, until it is left.

    An engine has its origins for life. When the master lists other ones, `succeed` is called, once what the next
    process of the mount starts by is in the folder.
    """

    def __init__(
        self,
        engine: Engine,
        spec: MemberSpec,
        config: EngineConfig,
        mountpoint: Path,
        succeed: Callable[[], None],
    ) -> None:
        if config.cluster is None:
            raise ValueError("only a member of a cluster follows one")
        self._engine, self._spec, self._token = engine, spec, config.cluster.token
        self._token_file = config.cluster.token_file
        self._authority = config.cluster.tls.authority if config.cluster.tls else None
        self._node, self._mountpoint = config.cluster.node, mountpoint
        self._origins = tuple((mount.path, mount.label) for mount in config.origins)
        self._succeed = succeed
        self._folder = engine.state_directory
        self._instance = secrets.token_hex(8)
        self._reachability = Reachability(_log, f"mount/{mountpoint}", spec.master)
        self._known = last_outlook(self._folder)
        self._epoch = epoch_of(self._known)
        self._snapshot = self._known.snapshot if self._known else None
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    def metrics(self) -> str:
        """The reachability of the master, in the OpenMetrics format."""
        return self._reachability.metrics("headrace_mount_master_unreachable")

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._task = self._loop.create_task(self._work())
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _work(self) -> None:
        async with ControlClient(
            self._spec.master, self._token, authority=self._authority, token_file=self._token_file
        ) as client:
            await asyncio.gather(self._follow(client), self._report(client))

    async def _follow(self, client: ControlClient) -> None:
        while True:
            tag = self._snapshot.tag if self._snapshot else ""
            try:
                outlook = await client.outlook(after_epoch=self._epoch, after_snapshot=tag, wait_s=POLL_S)
                await self._take(client, outlook)
                self._reachability.found()
                if outlook.view is not None and outlook.published_view is None and self._epoch:
                    # A master of an earlier version, which has just begun, says so at once, again and again.
                    await asyncio.sleep(_RETRY_S)
            except HeadraceError as error:
                self._reachability.lost(error)
                await asyncio.sleep(_RETRY_S)

    async def _take(self, client: ControlClient, outlook: Outlook) -> None:
        if outlook.published_view is not None:
            await asyncio.to_thread(self._engine.set_view, json.dumps(outlook.published_view))
            self._epoch = outlook.epoch
        if outlook.snapshot is not None and outlook.snapshot != self._snapshot:
            await self._move_on(client, outlook, outlook.snapshot)
        self._keep(outlook)

    async def _move_on(self, client: ControlClient, outlook: Outlook, note: SnapshotNote) -> None:
        try:
            await fetch_snapshot(client, note, self._folder, continue_snapshot)
        except OSError as error:
            # A folder that takes nothing at present, on a full disk, is no reason to follow no more.
            if isinstance(error, HeadraceError) and not isinstance(error, _OF_THIS_ONE):
                raise
            _log.warning("mount/%s: snapshot %d: %s", self._mountpoint, note.version, error)
            await asyncio.sleep(_RETRY_S)
            return
        self._snapshot = note
        origins = outlook.dataset.origins
        if origins != self._origins[: len(origins)]:
            self._end_as(outlook)
            return
        version = await asyncio.to_thread(self._engine.adopt_snapshot)
        _log.info("mount/%s: snapshot %d: %d files", self._mountpoint, version, note.files)

    def _end_as(self, outlook: Outlook) -> None:
        """Leaves the mount to a process that reads the origins of the new snapshot."""
        _log.info("mount/%s: the dataset has other mounts now", self._mountpoint)
        self._keep(outlook)
        self._succeed()

    def _keep(self, outlook: Outlook) -> None:
        """For a start without the master: with the view and the snapshot that are here, whichever of them is new."""
        here = {"snapshot": self._snapshot, "dataset": with_earlier(outlook.dataset, self._origins)}
        known = carried_on(outlook, self._known).model_copy(update=here)
        if known.view is None or known == self._known:
            return
        try:
            save_outlook(self._folder, known)
            self._known = known
        except OSError as error:
            _log.warning(
                "mount/%s: the view cannot be kept for a restart: %s", self._mountpoint, error.strerror
            )

    async def _report(self, client: ControlClient) -> None:
        interval_s = _REPORT_EVERY_S
        while True:
            with contextlib.suppress(HeadraceError):  # whether the master answers is told by the poll
                answer = await client.mount_heartbeat(await self._beat())
                interval_s = answer.next_interval_s
            await asyncio.sleep(interval_s)

    async def _beat(self) -> MountHeartbeat:
        reads = (await asyncio.to_thread(self._engine.status)).reads
        return MountHeartbeat(
            id=self._spec.mount_id,
            instance=self._instance,
            node=self._node,
            mountpoint=str(self._mountpoint),
            known_epoch=self._epoch,
            snapshot_version=self._snapshot.version if self._snapshot else 0,
            traffic=traffic_of(reads),
        )
