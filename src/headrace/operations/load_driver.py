"""Loads: ordered from the master of their dataset, and followed by its reports. The job driver of both backends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from headrace.control.client import ControlClient
from headrace.control.messages import LoadOrder, LoadReport, LoadState, encode_paths
from headrace.errors import HeadraceError, MissingFileError
from headrace.operations.run_notes import Note
from headrace.plan.job_specs import LoadJob
from headrace.plan.operation_inputs import JobFacts, JobState

_LONGEST_MESSAGE = 4096


class Masters(Protocol):
    """The addresses of the masters of datasets."""

    async def client(self, title: str) -> ControlClient:
        """Asks the master of the dataset `namespace/name`. Raises `MissingFileError` when it has none."""


@dataclass(frozen=True, slots=True)
class LoadDriver:
    """The work of DataLoads. Its state stands in the note, not in the task or the operation."""

    masters: Masters

    async def begin(self, _task: object, job: LoadJob, note: Note) -> Note:
        """Orders a load for each part."""
        loads: list[str] = []
        async with await self.masters.client(job.cluster) as client:
            if job.refresh:
                await client.refresh()
            for part in job.parts:
                paths = encode_paths(os.fsencode(path) for path in part.paths)
                report = await client.start_load(LoadOrder(paths=paths, replicas=part.replicas, pin=job.pin))
                loads.append(report.id)
        return note.with_details(cluster=job.cluster, loads=loads)

    async def facts(self, _operation: object, note: Note) -> JobFacts | None:
        """The master's report; `None` when it lost the loads."""
        if not note.details.get("loads"):
            return None
        try:
            return _facts(note, await self._reports(note))
        except MissingFileError:
            return None
        except HeadraceError as error:
            # A master that is away comes back, and knows its loads.
            return note.facts(JobState.RUNNING, message=error.message)

    async def cancel(self, _operation: object, note: Note) -> bool:
        """Stops the loads; what is cached stays. True when nothing of them is left."""
        if not note.details.get("loads"):
            return False
        try:
            async with await self.masters.client(note.details["cluster"]) as client:
                for load in note.details["loads"]:
                    await client.cancel_load(load)
        except MissingFileError:
            return True
        return False

    async def forget(self, _operation: object, _note: Note) -> None:
        """Nothing is kept."""

    async def _reports(self, note: Note) -> list[LoadReport]:
        async with await self.masters.client(note.details["cluster"]) as client:
            return [await client.load(load) for load in note.details["loads"]]


def _facts(note: Note, reports: Sequence[LoadReport]) -> JobFacts:
    """Several loads as the work of one run."""
    ended = [each.ended_at_s for each in reports if each.state.ended and each.ended_at_s is not None]
    messages = [each.message for each in reports if each.message]
    return note.facts(
        _state(reports),
        ended_at=datetime.fromtimestamp(max(ended), UTC).replace(microsecond=0) if ended else None,
        done_bytes=sum(each.done_bytes for each in reports),
        total_bytes=sum(each.total_bytes for each in reports),
        done_files=sum(each.done_files for each in reports),
        total_files=sum(each.total_files for each in reports),
        did_not_fit_bytes=sum(each.did_not_fit_bytes for each in reports),
        faults=sum(len(each.errors) for each in reports),
        message=messages[0][:_LONGEST_MESSAGE] if messages else "",
    )


def _state(reports: Sequence[LoadReport]) -> JobState:
    if any(not each.state.ended for each in reports):
        return JobState.RUNNING
    if any(each.state in (LoadState.FAILED, LoadState.CANCELLED) for each in reports):
        return JobState.FAILED
    return JobState.COMPLETE
