"""A copy's process: source and target opened, the copy followed to its end, and what is known of it told on the way.

SIGTERM and SIGINT cancel it: what it began and did not finish is taken away. A kill leaves it to the next process with
the same state folder, which goes on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator

from headrace.control.client import ControlClient
from headrace.control.messages import Outlook
from headrace.control.outlooks import epoch_of
from headrace.engine.copies import NativeCopier
from headrace.engine.handles import Job
from headrace.engine.native import set_log
from headrace.engine.status import JobReport
from headrace.errors import ConfigError, HeadraceError
from headrace.exits import ExitCode, complaint, exit_code
from headrace.roles.cluster.first_outlook import POLL_S, first_outlook
from headrace.roles.logs import start_python_log
from headrace.roles.messages import CopySpec
from headrace.roles.pages.progress_page import ProgressPage
from headrace.roles.processes.progress import ProgressFile
from headrace.settings.cluster import ClusterConfig
from headrace.settings.copying import CopyConfig
from headrace.settings.engine import EngineConfig, SnapshotPolicy
from headrace.settings.origins import ClusterOrigin, OriginMount

_log = logging.getLogger("headrace.copy")

_POLL_EVERY_S = 1.0
_RETRY_S = 2.0


class CopyProcess:
    """One copy. `run` returns its exit code."""

    def __init__(self, spec: CopySpec, progress: ProgressFile) -> None:
        self._spec, self._progress = spec, progress
        self._authority = spec.tls.authority if spec.tls else None
        self._ended = asyncio.Event()

    async def run(self) -> int:
        """Copies until everything is there, or it is told to end."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._ended.set)
        outlook = await self._outlook()
        copier = await asyncio.to_thread(NativeCopier, self._config(outlook), self._spec.keys)
        following = asyncio.create_task(self._follow(copier, outlook)) if outlook else None
        try:
            report = await self._work(copier)
        finally:
            if following is not None:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following
            await asyncio.to_thread(copier.close)
        return self._said(report)

    async def _outlook(self) -> Outlook | None:
        """What the master says of its dataset, with the list of files; `None` when storage is the source."""
        spec = self._spec
        if spec.settings.master is None or spec.token is None:
            return None
        return await first_outlook(
            spec.settings.master,
            spec.token,
            spec.state_directory,
            lambda text: _log.info("copy: %s", text),
            authority=self._authority,
        )

    def _config(self, outlook: Outlook | None) -> CopyConfig:
        spec = self._spec
        if outlook is None:
            if spec.config is None:
                raise ConfigError.of("the copy has no source")
            return spec.config
        return CopyConfig(
            source=_member(spec, outlook),
            source_path=spec.settings.source_path.strip("/"),
            target=spec.target,
            files=spec.settings.files,
            part_bytes=spec.part_bytes,
        )

    async def _work(self, copier: NativeCopier) -> JobReport:
        job = await asyncio.to_thread(copier.start)
        while not await asyncio.to_thread(job.wait, _POLL_EVERY_S):
            self._progress.tell(await asyncio.to_thread(job.progress))
            if self._ended.is_set():
                return await self._cancelled(job)
        return await asyncio.to_thread(job.progress)

    async def _cancelled(self, job: Job) -> JobReport:
        _log.info("copy: told to end")
        await asyncio.to_thread(job.cancel)
        while not await asyncio.to_thread(job.wait, _POLL_EVERY_S):
            pass
        return await asyncio.to_thread(job.progress)

    async def _follow(self, copier: NativeCopier, outlook: Outlook) -> None:
        """Keeps the copy with its workers; the list of files stays what it was when the copy began."""
        spec = self._spec
        if spec.settings.master is None or spec.token is None:
            return
        epoch, tag = epoch_of(outlook), outlook.snapshot.tag if outlook.snapshot else ""
        async with ControlClient(
            spec.settings.master, spec.token, authority=self._authority, token_file=spec.token_file
        ) as client:
            while True:
                try:
                    latest = await client.outlook(after_epoch=epoch, after_snapshot=tag, wait_s=POLL_S)
                    tag = latest.snapshot.tag if latest.snapshot else tag
                    if latest.published_view is not None:
                        await asyncio.to_thread(copier.set_view, latest.published_view)
                        epoch = latest.epoch
                    elif latest.view is not None and epoch:
                        # Of a master of an earlier version, which has just begun: it says so again and again.
                        await asyncio.sleep(_RETRY_S)
                except HeadraceError as error:
                    _log.warning("copy: the master does not answer: %s", error.message)
                    await asyncio.sleep(_RETRY_S)

    def _said(self, report: JobReport) -> int:
        self._progress.tell(report)
        for error in report.errors:
            sys.stderr.write(f"error: {error}\n")
        _log.info("copy: %s: %s", report.state, report.message)
        if report.state == "cancelled":
            return int(ExitCode.INTERRUPTED)
        return int(ExitCode.OK if report.complete else ExitCode.INCOMPLETE)


def _member(spec: CopySpec, outlook: Outlook) -> EngineConfig:
    """An engine that reads from the workers."""
    if spec.token is None:
        raise ConfigError.of("the token of the cluster is missing")
    dataset = outlook.dataset
    origins = tuple(OriginMount(path=path, origin=ClusterOrigin(name=name)) for path, name in dataset.origins)
    transfer = spec.transfer.model_copy(update={"block_size_bytes": dataset.block_size_bytes})
    return EngineConfig(
        name=outlook.cluster,
        origins=origins,
        state_directory=spec.state_directory,
        limits=spec.limits,
        transfer=transfer,
        snapshot=SnapshotPolicy.KEEP,
        cluster=ClusterConfig(
            view=json.loads(json.dumps(outlook.view or {})),
            token=spec.token,
            token_file=spec.token_file,
            node=spec.node,
            tls=spec.tls,
        ),
    )


def serve(spec: CopySpec, run: Callable[[CopySpec, ProgressFile], int] | None = None) -> int:
    """Copies to the end; the exit code. A fault that keeps it from beginning is told in words, and in the file."""
    progress = ProgressFile(spec.settings.progress_file, spec.settings.last_word_file)
    try:
        with _told(spec.settings.progress_address, progress):
            return (run or _run)(spec, progress)
    except HeadraceError as error:
        progress.fail(f"{error.message}; {error.hint}" if error.hint else error.message)
        sys.stderr.write(complaint(error) + "\n")
        return int(exit_code(error))


@contextlib.contextmanager
def _told(address: str | None, progress: ProgressFile) -> Iterator[None]:
    """Tells the progress to whoever asks, if that is wanted."""
    page = ProgressPage(address, lambda: progress.numbers) if address else None
    try:
        yield
    finally:
        if page is not None:
            page.close()


def _run(spec: CopySpec, progress: ProgressFile) -> int:
    return asyncio.run(CopyProcess(spec, progress).run())


def main(arguments: list[str]) -> int:
    """`LABEL ORDERS-DESCRIPTOR`: for `headrace copy`, not for people."""
    return begin(CopySpec.from_descriptor(int(arguments[1])))


def begin(spec: CopySpec) -> int:
    """Sets the logs of this process up, and copies to the end; the exit code."""
    start_python_log(spec.settings.log_level, spec.settings.log_format)
    set_log(spec.settings.log_level, spec.settings.log_format)
    return serve(spec)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
