"""The master's process: the cluster's knowledge, its API, and the engine that lists origins and runs loads.

SIGTERM and SIGINT end it in order; SIGHUP takes a new snapshot. Reads of the cluster go on while it is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
from pathlib import Path

from headrace.control.api import Api
from headrace.control.cluster import Cluster, ClusterRules
from headrace.control.durable import Lock
from headrace.control.loads import RunningLoad
from headrace.control.messages import LoadReport, Refreshed, SnapshotNote
from headrace.control.server import Server
from headrace.engine import cluster as engine
from headrace.engine.native import set_log
from headrace.errors import HeadraceError
from headrace.exits import complaint, exit_code
from headrace.roles.datasets import dataset_note
from headrace.roles.logs import start_python_log
from headrace.roles.messages import MasterOrders
from headrace.settings.addresses import format_address, parse_address
from headrace.settings.cluster import LoadConfig

_log = logging.getLogger("headrace.master")


class EngineLister:
    """Snapshots made by the engine."""

    def __init__(self, orders: MasterOrders) -> None:
        self._config = orders.snapshots

    def take(self, directory: Path) -> tuple[Path, Refreshed]:
        """Lists all origins; blocks."""
        path, report = engine.take_snapshot(self._config, directory)
        return path, Refreshed.model_validate(report.model_dump())

    def describe(self, path: Path) -> SnapshotNote:
        """What stands in the file's header."""
        head = engine.read_snapshot_head(path)
        return SnapshotNote(
            version=head.version,
            files=head.files,
            directories=head.directories,
            data_bytes=head.bytes,
            taken_at_s=path.stat().st_mtime,
        )


class MasterProcess:
    """One master. `run` returns its exit code when it was told to end."""

    def __init__(self, orders: MasterOrders) -> None:
        self._orders = orders
        self._ended = asyncio.Event()

    async def run(self) -> int:
        """Serves until it is told to end."""
        orders = self._orders
        with Lock(orders.state_directory, "master"):
            cluster = Cluster(rules_of(orders), EngineLister(orders), self._start_load, engine.file_ids)
            api = Api(cluster, web=orders.settings.web)
            server = Server(api.endpoints(), orders.token)
            api.server = server
            host, port = parse_address(orders.settings.listen)
            await cluster.open()
            try:
                port = await server.start(host, port)
                self._listen_to_signals(cluster)
                _log.info(
                    "master: cluster %s at http://%s", orders.settings.cluster, format_address(host, port)
                )
                await self._ended.wait()
                await server.close()
            finally:
                await cluster.close()
        _log.info("master: ended")
        return 0

    def _start_load(self, report: LoadReport, snapshot: Path, view: str) -> RunningLoad:
        orders = self._orders
        config = LoadConfig(
            action=report.order.action.value,
            snapshot=snapshot,
            view=json.loads(view),
            token=orders.token,
            replicas=report.order.replicas,
            rate_bytes_per_s=report.order.rate_bytes_per_s,
            verify=report.order.verify,
            block_size_bytes=orders.snapshots.transfer.block_size_bytes,
            tls=orders.tls,
        )
        running: RunningLoad = engine.start_load(config, report.order.raw_paths)
        return running

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


async def _refresh(cluster: Cluster) -> None:
    # What went wrong stands in the status, too.
    try:
        await cluster.refresh()
    except HeadraceError as error:
        _log.error("master: no new snapshot: %s", error)


def rules_of(orders: MasterOrders) -> ClusterRules:
    """What the settings say of the cluster."""
    settings, snapshots = orders.settings, orders.snapshots
    return ClusterRules(
        name=settings.cluster,
        state_directory=orders.state_directory,
        dataset=dataset_note(settings.cluster, snapshots.origins, snapshots.transfer.block_size_bytes),
        origin_labels=tuple(_label(mount.path, mount.label) for mount in snapshots.origins),
        replicas=settings.replicas,
        heartbeat_interval_s=settings.heartbeat_interval_s,
        dead_after_s=settings.dead_after_s,
        refresh_interval_s=settings.refresh_interval_s,
        snapshot_at_start=settings.snapshot_at_start,
    )


def _label(path: str, origin: str) -> str:
    return f"{path}={origin}" if path else origin


def main(arguments: list[str]) -> int:
    """`CLUSTER ORDERS-DESCRIPTOR`: for `headrace master`, not for people."""
    orders = MasterOrders.from_descriptor(int(arguments[1]))
    start_python_log(orders.settings.log_level, orders.settings.log_format)
    set_log(orders.settings.log_level, orders.settings.log_format)
    return serve(orders)


def serve(orders: MasterOrders) -> int:
    """Runs a master to its end; the exit code. What kept it from working is told in words."""
    try:
        return asyncio.run(_run(orders))
    except HeadraceError as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(complaint(error) + "\n")
        return int(exit_code(error))


async def _run(orders: MasterOrders) -> int:
    return await MasterProcess(orders).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
