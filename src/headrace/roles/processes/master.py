"""The master's process: the cluster's knowledge, its API, and the engine that lists origins and runs loads.

SIGTERM and SIGINT end it in order; SIGHUP takes a new snapshot. Reads of the cluster go on while it is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from headrace.control.api import Api
from headrace.control.cluster import Cluster, ClusterRules
from headrace.control.messages import DatasetNote
from headrace.control.roster import policy_of
from headrace.control.server import Server
from headrace.control.state_file import Lock
from headrace.control.tls import renewed_server_context
from headrace.engine.native import set_log
from headrace.errors import HeadraceError
from headrace.exits import complaint, exit_code
from headrace.otlp import exported
from headrace.process.garbage import pass_over_what_is_there
from headrace.roles.cluster.dataset_fingerprint import fingerprint
from headrace.roles.cluster.host_addresses import host_name
from headrace.roles.cluster.listing import ListingEngine
from headrace.roles.logs import start_python_log
from headrace.roles.messages import MasterSpec
from headrace.settings.addresses import format_address, parse_address

_log = logging.getLogger("headrace.master")


class MasterProcess:
    """One master. `run` returns its exit code when it was told to end."""

    def __init__(self, spec: MasterSpec) -> None:
        self._spec = spec
        self._ended = asyncio.Event()

    async def run(self) -> int:
        """Serves until it is told to end."""
        spec = self._spec
        with Lock(spec.state_directory, "master"):
            engine = ListingEngine(spec.config, spec.keys)
            cluster = Cluster(rules_of(spec), engine)
            api = Api(cluster, web=spec.settings.web)
            server = Server(api.endpoints(), spec.token, token_file=spec.token_file)
            api.server = server
            host, port = parse_address(spec.settings.listen)
            https = spec.settings.https
            tls = renewed_server_context(https.certificate, https.key) if https else None
            await cluster.open()
            try:
                port = await server.start(host, port, tls)
                self._listen_to_signals(cluster)
                where = format_address(host or host_name(), port)
                scheme = "https" if tls else "http"
                _log.info("master: cluster %s at %s://%s", spec.settings.cluster, scheme, where)
                async with exported("headrace-master", api.metrics):
                    await _first_of(self._ended.wait(), cluster.work())
            finally:
                await server.close()
                await cluster.close()
                await asyncio.to_thread(engine.close)
        _log.info("master: ended")
        return 0

    def _listen_to_signals(self, cluster: Cluster) -> None:
        loop = asyncio.get_running_loop()
        refreshes: set[asyncio.Task[None]] = set()

        def refresh() -> None:
            task = asyncio.create_task(_refresh(cluster))
            refreshes.add(task)
            task.add_done_callback(refreshes.discard)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ended.set)
        loop.add_signal_handler(signal.SIGHUP, refresh)


async def _first_of(*awaited: Coroutine[Any, Any, object]) -> None:
    """Returns when the first of these does, or raises what it raises; the others are cancelled."""
    tasks = [asyncio.create_task(each) for each in awaited]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def _refresh(cluster: Cluster) -> None:
    # What went wrong stands in the status, too.
    try:
        await cluster.refresh()
    except HeadraceError as error:
        _log.error("master: no new snapshot: %s", error)


def rules_of(spec: MasterSpec) -> ClusterRules:
    """The cluster's rules from the settings."""
    settings, config = spec.settings, spec.config
    return ClusterRules(
        name=settings.cluster,
        state_directory=spec.state_directory,
        snapshot_directory=config.state_directory,
        dataset=DatasetNote(
            name=settings.cluster,
            fingerprint=fingerprint(config.origins),
            block_size_bytes=config.transfer.block_size_bytes,
        ),
        origin_labels=tuple(_label(mount.path, mount.label) for mount in config.origins),
        policy=policy_of(
            replicas=settings.replicas,
            heartbeat_s=settings.heartbeat_interval_s,
            dead_after_s=settings.dead_after_s,
        ),
        refresh_interval_s=settings.refresh_interval_s,
    )


def _label(path: str, origin: str) -> str:
    return f"{path}={origin}" if path else origin


def main(arguments: list[str]) -> int:
    """`CLUSTER ORDERS-DESCRIPTOR`: for `headrace master`, not for people."""
    return begin(MasterSpec.from_descriptor(int(arguments[1])))


def begin(spec: MasterSpec) -> int:
    """Sets the logs of this process up, and runs a master to its end; the exit code."""
    start_python_log(spec.settings.log_level, spec.settings.log_format)
    set_log(spec.settings.log_level, spec.settings.log_format)
    pass_over_what_is_there()
    return serve(spec)


def serve(spec: MasterSpec) -> int:
    """Runs a master to its end; the exit code. A fault that keeps it from working is told in words."""
    try:
        return asyncio.run(_run(spec))
    except HeadraceError as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(complaint(error) + "\n")
        return int(exit_code(error))


async def _run(spec: MasterSpec) -> int:
    return await MasterProcess(spec).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
