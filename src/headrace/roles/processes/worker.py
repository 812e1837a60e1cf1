"""A worker's process: the native worker, and the heartbeats that make it a member.

The master is asked and told, never needed: without it the worker goes on by the last view, also after a restart.
SIGTERM and SIGINT end it in order and keep its cache and its place, as a rolling restart wants it. Only an order to
drain hands the blocks over first, and then ends the process. A cache folder whose disk hangs is left unclosed; the exit
code says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace.control.client import ControlClient
from headrace.control.messages import (
    MOST_LEVELS,
    MOST_LINE,
    Heartbeat,
    HeartbeatAnswer,
    HeartbeatOrder,
    Level,
    Outlook,
    Traffic,
    WorkerState,
)
from headrace.control.outlooks import epoch_of, last_outlook, save_outlook
from headrace.control.state_file import Lock
from headrace.engine.cluster import NativeWorker
from headrace.engine.native import set_log, version
from headrace.engine.status import LevelReport
from headrace.errors import BusyError, ConfigError, DeadlineError, HeadraceError, RefusedError
from headrace.exits import complaint, exit_code
from headrace.process.garbage import pass_over_what_is_there
from headrace.roles.cluster.dataset_fingerprint import fingerprint
from headrace.roles.cluster.draining import Drain
from headrace.roles.cluster.host_addresses import advertised_address, listening_address
from headrace.roles.cluster.incarnation import next_incarnation
from headrace.roles.cluster.reachability import Reachability
from headrace.roles.cluster.storage_silence import Silence
from headrace.roles.logs import start_python_log
from headrace.roles.messages import WorkerSpec
from headrace.roles.pages.endpoint import Endpoint
from headrace.settings.cluster import ClusterConfig, WorkerConfig
from headrace.settings.engine import EngineConfig

_log = logging.getLogger("headrace.worker")

RETRY_S = 2.0
_JITTER = 0.2


class WorkerProcess:
    """One worker. `run` returns its exit code when it was told to end, or has drained."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._name = spec.id
        self._state = spec.config.state_directory.parent
        self._ended = asyncio.Event()
        self._woken = asyncio.Event()
        self._told_to_end = asyncio.Event()
        self._reachability = Reachability(_log, f"worker/{self._name}", spec.master)
        self._outlook: Outlook | None = None
        self._pins_version = 0
        self._drain: Drain | None = None
        self._drained = False
        self._superseded = False
        self._unclosed: DeadlineError | None = None
        self._silence = Silence()

    async def run(self) -> int:
        """Serves until it is told to end, or has handed over what it had."""
        with Lock(self._state, "worker"):
            self._incarnation = next_incarnation(self._state)
            self._listen_to_signals()
            tls = self._spec.config.cluster.tls if self._spec.config.cluster else None
            authority = tls.authority if tls else None
            token_file = self._spec.config.cluster.token_file if self._spec.config.cluster else None
            async with ControlClient(
                self._spec.master, self._spec.token, authority=authority, token_file=token_file
            ) as client:
                outlook = await self._first_outlook(client)
                if outlook is None:
                    return 0
                return await self._serve(client, outlook)

    async def _serve(self, client: ControlClient, outlook: Outlook) -> int:
        self._worker = await asyncio.to_thread(NativeWorker, self._config(outlook), self._spec.keys)
        endpoint = self._endpoint()
        try:
            self._remember(outlook)
            self._address = advertised_address(
                self._spec.settings.advertise, self._worker.address(), self._spec.master
            )
            told = (self._name, self._address, self._spec.master, self._spec.config.limits)
            _log.info("worker/%s: serving at %s, master %s; %s", *told)
            await self._report_until_ended(client)
        finally:
            if endpoint is not None:
                await asyncio.to_thread(endpoint.close)
            await asyncio.to_thread(self._close)
        if self._superseded:
            raise BusyError.of(
                f"a younger process is worker '{self._name}' now", hint="give each worker an id of its own"
            )
        _log.info("worker/%s: ended%s", self._name, ", drained" if self._drained else "")
        if self._drained and self._spec.settings.lingers_drained:
            await self._told_to_end.wait()
        return 0 if self._unclosed is None else int(exit_code(self._unclosed))

    def _close(self) -> None:
        """Ends the native worker, and says which cache folders it had to leave as they are."""
        try:
            self._worker.close()
        except DeadlineError as error:
            self._unclosed = error
            _log.error("worker/%s: %s; %s", self._name, error.message, error.hint)

    async def _first_outlook(self, client: ControlClient) -> Outlook | None:
        """The master's, with the view that was kept where it has none yet, else what was kept; without either it waits.

        `None` when told to end.
        """
        kept = last_outlook(self._state)
        while not self._ended.is_set():
            try:
                outlook = await client.outlook_after(kept)
            except RefusedError:
                raise
            except HeadraceError as error:
                self._reachability.lost(error)
                if kept is not None:
                    return kept
                await self._sleep(RETRY_S)
            else:
                self._reachability.found()
                return outlook
        return None

    def _config(self, outlook: Outlook) -> EngineConfig:
        config, settings = self._spec.config, self._spec.settings
        cluster = ClusterConfig(
            view=outlook.view or {},
            token=self._spec.token,
            token_file=config.cluster.token_file if config.cluster else None,
            node=settings.node or self._name,
            tls=config.cluster.tls if config.cluster else None,
            worker=WorkerConfig(id=self._name, listen=listening_address(settings.listen)),
        )
        size = outlook.dataset.block_size_bytes
        transfer = config.transfer.model_copy(update={"block_size_bytes": size})
        return config.model_copy(update={"cluster": cluster, "transfer": transfer})

    def _endpoint(self) -> Endpoint | None:
        address = self._spec.settings.metrics_address
        return Endpoint(address, self._metrics, lambda: True, "serving") if address else None

    def _metrics(self) -> str:
        own = self._reachability.metrics("headrace_worker_master_unreachable")
        return self._worker.metrics().removesuffix("# EOF\n") + own + "# EOF\n"

    # --- heartbeats ---

    async def _report_until_ended(self, client: ControlClient) -> None:
        first = True
        while not self._ended.is_set():
            wait_s = RETRY_S
            try:
                answer = await client.heartbeat(await self._beat())
            except (RefusedError, ConfigError, BusyError) as error:
                if first:
                    raise
                self._reachability.lost(error)
            except HeadraceError as error:
                self._reachability.lost(error)
            else:
                self._reachability.found()
                first = False
                wait_s = answer.next_interval_s
                await self._apply(client, answer)
                if self._drain is not None and self._drain.is_done:
                    await self._leave(client)
                    return
            await self._sleep(wait_s * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - only to spread

    async def _beat(self, state: WorkerState = WorkerState.ACTIVE) -> Heartbeat:
        report = await asyncio.to_thread(self._worker.status)
        metrics = await asyncio.to_thread(self._worker.metrics)
        drain = self._drain
        return Heartbeat(
            id=self._name,
            incarnation=self._incarnation,
            address=self._address,
            node=self._spec.settings.node or self._name,
            capacity_bytes=report.capacity_bytes,
            cached_bytes=report.cached_bytes,
            state=state,
            known_epoch=epoch_of(self._outlook),
            joined_epoch=self._own_row().get("joined_epoch", 0),
            known_members=len(self._members()),
            draining=drain is not None,
            dataset=fingerprint(self._spec.config.origins),
            lease_socket=self._worker.lease_socket(),
            levels=tuple(_level(level) for level in report.levels),
            traffic=Traffic(
                local_bytes=report.hit_bytes,
                peer_bytes=report.peer_bytes,
                origin_bytes=report.origin_bytes,
                loaded_bytes=report.loaded_bytes,
            ),
            drained_bytes=drain.done_bytes if drain else 0,
            to_drain_bytes=drain.total_bytes if drain else 0,
            hanging_folders=tuple(_line(folder) for folder in report.hanging_folders[:MOST_LEVELS]),
            version=version(),
            origin_silent_s=self._silence.observe(metrics, report.origin_bytes, time.monotonic()),
        )

    def _own_row(self) -> dict[str, Any]:
        """What the view says of this worker."""
        return next((dict(member) for member in self._members() if member["id"] == self._name), {})

    def _members(self) -> Sequence[dict[str, Any]]:
        """Whom the view lists."""
        return (self._outlook.view or {}).get("members", ()) if self._outlook else ()

    async def _apply(self, client: ControlClient, answer: HeartbeatAnswer) -> None:
        if answer.outlook.published_view is not None:
            await asyncio.to_thread(self._worker.set_view, answer.outlook.published_view)
            self._remember(answer.outlook)
        # 0: a master that has just begun does not know yet. What is pinned stays so until it does.
        if answer.outlook.pins_version not in (0, self._pins_version):
            await self._take_pins(client)
        await self._obey(answer.order)

    async def _obey(self, order: HeartbeatOrder) -> None:
        if order is HeartbeatOrder.SUPERSEDED:
            self._superseded = True
            self._ended.set()
        elif order is HeartbeatOrder.STOP:
            self._drained = True
            self._ended.set()
        elif order is HeartbeatOrder.DRAIN and self._drain is None:
            # Only once the view says so, too: before that, the next owners are not the right ones.
            if self._own_row().get("state") == "draining":
                _log.info("worker/%s: draining", self._name)
                self._drain = Drain(self._worker, self._name, self._wake_from_thread())
        elif order is HeartbeatOrder.SERVE and self._drain is not None:
            _log.info("worker/%s: stays after all", self._name)
            self._drain.cancel()
            self._drain = None

    async def _take_pins(self, client: ControlClient) -> None:
        try:
            pins = await client.pins()
        except HeadraceError as error:
            self._reachability.lost(error)
            return
        await asyncio.to_thread(self._worker.set_pinned, pins.ids)
        self._pins_version = pins.version

    def _wake_from_thread(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended before
                loop.call_soon_threadsafe(self._woken.set)

        return wake

    async def _leave(self, client: ControlClient) -> None:
        try:
            await client.heartbeat(await self._beat(WorkerState.LEFT))
        except HeadraceError as error:
            # Its blocks are with others already; the master will find it silent.
            self._reachability.lost(error)
        self._drained = True

    def _remember(self, outlook: Outlook) -> None:
        self._outlook = outlook
        if outlook.published_view is None:
            return
        try:
            save_outlook(self._state, outlook)
        except OSError as error:
            _log.warning("worker/%s: the view cannot be kept for a restart: %s", self._name, error.strerror)

    async def _sleep(self, seconds: float) -> None:
        """Until then, or until there is something to do or to say."""
        if not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds)
        self._woken.clear()

    def _listen_to_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._end)

    def _end(self) -> None:
        self._told_to_end.set()
        self._ended.set()
        self._woken.set()


def _line(path: str) -> str:
    """A path as it may stand in a heartbeat."""
    return "".join(each if each.isprintable() else "?" for each in path)[-MOST_LINE:]


def _level(level: LevelReport) -> Level:
    return Level(
        medium=level.medium.value,
        quota_bytes=level.quota_bytes,
        used_bytes=level.used_bytes,
        trouble=level.trouble or "",
    )


def main(arguments: list[str]) -> int:
    """`ID ORDERS-DESCRIPTOR`: for `headrace worker`, not for people."""
    return begin(WorkerSpec.from_descriptor(int(arguments[1])))


def begin(spec: WorkerSpec) -> int:
    """Sets the logs of this process up, and runs a worker to its end; the exit code."""
    start_python_log(spec.settings.log_level, spec.settings.log_format)
    set_log(spec.settings.log_level, spec.settings.log_format)
    pass_over_what_is_there()
    return serve(spec)


def serve(spec: WorkerSpec) -> int:
    """Runs a worker to its end; the exit code. A fault that keeps it from working is told in words."""
    try:
        return asyncio.run(_run(spec))
    except HeadraceError as error:
        sys.stderr.write(complaint(error) + "\n")
        return int(exit_code(error))


async def _run(spec: WorkerSpec) -> int:
    return await WorkerProcess(spec).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
