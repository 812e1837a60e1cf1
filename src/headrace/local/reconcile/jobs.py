"""The work for operations: loads, ordered from the master of their dataset and followed by its reports; backups.

What was ordered is written down by the operation's identity, so that the next supervisor goes on with it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headrace.api.times import format_time, parse_time
from headrace.control.client import ControlClient
from headrace.control.messages import LoadOrder, LoadReport, LoadState, encode_paths
from headrace.control.tokens import read_token
from headrace.errors import HeadraceError, MissingFileError, UnsupportedError
from headrace.local.database import Database
from headrace.local.places import Places
from headrace.local.reconcile.backups import back_up
from headrace.local.reconcile.places import Addresses, places_of
from headrace.local.reconcile.rendering import master_url
from headrace.plan.operation_scene import JobFacts, JobState
from headrace.plan.orders import BackupJob, Job, LoadJob

_PREFIX = "job:"


@dataclass(frozen=True, slots=True)
class _Note:
    """What is written down of the work for one run."""

    run: str
    started: str
    cluster: str = ""
    loads: tuple[str, ...] = ()
    fault: str = ""
    kept_bytes: int | None = None
    ended: str = ""
    node: str | None = None


class Jobs:
    """The work for all operations. Used from one event loop."""

    def __init__(
        self,
        database: Database,
        places: Places,
        addresses: Addresses,
        master_node: Callable[[str], str | None],
    ) -> None:
        """`master_node` says on which node the master of a dataset runs."""
        self._database = database
        self._places = places
        self._addresses = addresses
        self._master_node = master_node
        self._starting: dict[str, asyncio.Task[None]] = {}

    async def facts(self, uid: str) -> JobFacts | None:
        """How far the work for an operation is; `None` when there is none, or the master lost it."""
        note = self._note(uid)
        if note is None:
            return None
        started = parse_time(note.started)
        if note.fault:
            return JobFacts(note.run, JobState.FAILED, started, started, message=note.fault)
        if uid in self._starting:
            return JobFacts(note.run, JobState.STARTING, started)
        if note.kept_bytes is not None:
            return _kept(note, started)
        return await self._followed(note, started) if note.loads else None

    async def _followed(self, note: _Note, started: datetime) -> JobFacts | None:
        try:
            return _facts(note, started, await self._reports(note))
        except MissingFileError:
            return None
        except HeadraceError as error:
            # A master that is away comes back, and knows its loads.
            return JobFacts(note.run, JobState.RUNNING, started, message=error.message)

    def start(self, uid: str, run: str, job: Job) -> None:
        """Orders the work of a run."""
        if uid in self._starting:
            return
        if isinstance(job, BackupJob):
            self._begin(uid, _Note(run, _now(), job.cluster), lambda note: self._back_up(uid, note, job))
        elif isinstance(job, LoadJob):
            self._begin(uid, _Note(run, _now(), job.cluster), lambda note: self._load(uid, note, job))
        else:
            message = "the local backend cannot do this kind of operation yet"
            self._write(uid, _Note(run, _now(), fault=UnsupportedError.of(message).message))

    def _begin(self, uid: str, note: _Note, work: Callable[[_Note], Coroutine[Any, Any, None]]) -> None:
        self._write(uid, note)
        task = asyncio.create_task(work(note))
        self._starting[uid] = task
        task.add_done_callback(lambda _: self._starting.pop(uid, None))

    async def _back_up(self, uid: str, note: _Note, job: BackupJob) -> None:
        try:
            async with await self._client(job.cluster) as client:
                kept = await back_up(client, job.cluster, job.address, job.run_as)
        except HeadraceError as error:
            self._write(uid, replace(note, fault=error.message))
            return
        self._write(
            uid, replace(note, kept_bytes=kept.file_bytes, ended=_now(), node=self._master_node(job.cluster))
        )

    async def cancel(self, uid: str) -> None:
        """Stops the work; what is cached stays."""
        task = self._starting.get(uid)
        if task is not None:
            task.cancel()
        note = self._note(uid)
        if note is None or not note.loads:
            return
        try:
            async with await self._client(note.cluster) as client:
                for load in note.loads:
                    await client.cancel_load(load)
        except MissingFileError:
            self.forget(uid)

    def forget(self, uid: str) -> None:
        """The operation is gone."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (f"{_PREFIX}{uid}",))

    async def close(self) -> None:
        """Ends what is under way here; loads go on at their masters."""
        tasks = list(self._starting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _load(self, uid: str, note: _Note, job: LoadJob) -> None:
        loads: list[str] = []
        try:
            async with await self._client(job.cluster) as client:
                if job.refresh:
                    await client.refresh()
                for part in job.parts:
                    paths = encode_paths(os.fsencode(path) for path in part.paths)
                    report = await client.start_load(
                        LoadOrder(paths=paths, replicas=part.replicas, pin=job.pin)
                    )
                    loads.append(report.id)
        except HeadraceError as error:
            self._write(uid, replace(note, loads=tuple(loads), fault=error.message))
            return
        self._write(uid, replace(note, loads=tuple(loads)))

    async def _reports(self, note: _Note) -> list[LoadReport]:
        async with await self._client(note.cluster) as client:
            return [await client.load(load) for load in note.loads]

    async def _client(self, cluster: str) -> ControlClient:
        places = places_of(self._places, cluster)
        master = master_url(places, self._addresses)
        if master is None:
            raise MissingFileError.of(f"dataset {cluster} has no master")
        return ControlClient(master, await asyncio.to_thread(read_token, places.token))

    def _note(self, uid: str) -> _Note | None:
        text = self._database.fact(f"{_PREFIX}{uid}")
        if not text:
            return None
        content: dict[str, Any] = json.loads(text)
        return _Note(**{**content, "loads": tuple(content["loads"])})

    def _write(self, uid: str, note: _Note) -> None:
        content = asdict(note)
        self._database.note(f"{_PREFIX}{uid}", json.dumps(content))


def _facts(note: _Note, started: datetime, reports: Sequence[LoadReport]) -> JobFacts:
    """Several loads as the work of one run."""
    ended = [each.ended_at_s for each in reports if each.state.ended and each.ended_at_s is not None]
    messages = [each.message for each in reports if each.message]
    return JobFacts(
        run=note.run,
        state=_state(reports),
        started_at=started,
        ended_at=datetime.fromtimestamp(max(ended), UTC).replace(microsecond=0) if ended else None,
        done_bytes=sum(each.done_bytes for each in reports),
        total_bytes=sum(each.total_bytes for each in reports),
        done_files=sum(each.done_files for each in reports),
        total_files=sum(each.total_files for each in reports),
        did_not_fit_bytes=sum(each.did_not_fit_bytes for each in reports),
        faults=sum(len(each.errors) for each in reports),
        message=messages[0] if messages else "",
    )


def _kept(note: _Note, started: datetime) -> JobFacts:
    """A backup that is there."""
    size = note.kept_bytes or 0
    ended = parse_time(note.ended)
    return JobFacts(
        note.run, JobState.COMPLETE, started, ended, done_bytes=size, total_bytes=size, node=note.node
    )


def _now() -> str:
    return format_time(datetime.now(UTC).replace(microsecond=0))


def _state(reports: Sequence[LoadReport]) -> JobState:
    if any(not each.state.ended for each in reports):
        return JobState.RUNNING
    if any(each.state in (LoadState.FAILED, LoadState.CANCELLED) for each in reports):
        return JobState.FAILED
    return JobState.COMPLETE
