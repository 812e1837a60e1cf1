"""Lines of a job's instances: of the chief through all its tries, of one, or of all, also when they are gone."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

from headrace.errors import MissingFileError
from headrace.local.jobs.job_layout import JobLayout
from headrace.local.jobs.job_messages import LogQueryText
from headrace.local.jobs.job_records import JobRecord, Stage
from headrace.local.jobs.job_store import JobStore
from headrace.local.jobs.log_reader import LogQuery, follow, lines_of
from headrace.local.layout import BackendLayout

_POLL_S = 0.3
_QUEUED = 64


@dataclass(frozen=True, slots=True)
class JobLogs:
    """The logs of all jobs of a backend. Used from one event loop."""

    job_store: JobStore
    layout: BackendLayout

    async def read(self, asked: LogQueryText) -> AsyncIterator[bytes]:
        """The lines, as they come when they are followed. Raises `MissingFileError` for what was never there."""
        record = self._record(asked.uid)
        query = LogQuery(asked.tail, asked.since, asked.timestamps)
        if asked.all_instances:
            lines = self._all(record, query, follows=asked.follow)
        elif asked.instance:
            self._check(record, asked.instance)
            lines = self._one(asked.uid, asked.instance, query, follows=asked.follow)
        else:
            lines = self._chief(record, query, follows=asked.follow)
        async for piece in lines:
            yield piece

    def _one(self, uid: str, name: str, query: LogQuery, *, follows: bool) -> AsyncIterator[bytes]:
        goes_on = (lambda: self._lives(uid, name)) if follows else (lambda: False)
        return follow(JobLayout(self.layout, uid).log(name), query, goes_on)

    async def _chief(self, record: JobRecord, query: LogQuery, *, follows: bool) -> AsyncIterator[bytes]:
        """Those of the last try; followed, those of the tries after it as well."""
        shown: str | None = None
        while True:
            present = self.job_store.find(record.uid)
            name = present.chief.name if present is not None and present.chief is not None else None
            if name is not None and name != shown:
                own = query if shown is None else replace(query, tail=None)
                async for piece in self._one(record.uid, name, own, follows=follows):
                    yield piece
                shown = name
                continue
            if not follows or present is None or present.stage is Stage.ENDED:
                return
            await asyncio.sleep(_POLL_S)

    async def _all(self, record: JobRecord, query: LogQuery, *, follows: bool) -> AsyncIterator[bytes]:
        names = self._names(record)
        if not follows:
            for piece in await asyncio.to_thread(self._merged, record.uid, names, query):
                yield piece
            return
        own = (
            self._one(record.uid, name, replace(query, before=_before(name)), follows=True) for name in names
        )
        async for piece in _mixed(list(own)):
            yield piece

    def _merged(self, uid: str, names: list[str], query: LogQuery) -> list[bytes]:
        """All lines by their times. Blocks."""
        layout = JobLayout(self.layout, uid)

        def of(name: str) -> Iterator[tuple[bytes, int, bytes]]:
            own = replace(query, before=_before(name))
            for number, line in enumerate(lines_of(layout.log(name), own)):
                yield line.stamp, number, line.shown(own)

        merged = heapq.merge(*(of(name) for name in names), key=lambda each: each[0])
        return [text for _, _, text in merged]

    def _record(self, uid: str) -> JobRecord:
        record = self.job_store.find(uid)
        if record is None:
            raise MissingFileError.of("the job is gone", hint="arena list")
        return record

    def _check(self, record: JobRecord, name: str) -> None:
        names = self._names(record)
        if name not in names:
            hint = f"there are {', '.join(names)}" if names else "none has begun yet"
            raise MissingFileError.of(f"job {record.spec.name} has no instance {name[:64]}", hint=hint)

    def _names(self, record: JobRecord) -> list[str]:
        """Of its instances now, and of those that left a log."""
        folder = JobLayout(self.layout, record.uid).log("").parent
        logs = [each.stem for each in folder.glob("*.log")] if folder.is_dir() else []
        return list(dict.fromkeys([*(each.name for each in record.instances), *sorted(logs)]))

    def _lives(self, uid: str, name: str) -> bool:
        """Whether more lines may come."""
        record = self.job_store.find(uid)
        instance = record.find(name) if record is not None else None
        if record is None or instance is None or record.stage is Stage.ENDED:
            return False
        # All but a launcher begin again under the same name.
        return not instance.state.has_ended or (record.spec.retries > 0 and not instance.is_chief)


def _before(name: str) -> bytes:
    return f"[{name}] ".encode()


async def _mixed(sources: list[AsyncIterator[bytes]]) -> AsyncIterator[bytes]:
    """What comes of all, as it comes."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUED)

    async def pump(source: AsyncIterator[bytes]) -> None:
        try:
            async for piece in source:
                await queue.put(piece)
        finally:
            await queue.put(None)

    pumps = [asyncio.create_task(pump(source)) for source in sources]
    left = len(pumps)
    try:
        while left:
            piece = await queue.get()
            if piece is None:
                left -= 1
            else:
                yield piece
    finally:
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
