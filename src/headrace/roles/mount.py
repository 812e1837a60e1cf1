"""The mount process: opens the engine, mounts, tells its starter, and serves until it is told to end.

SIGTERM and SIGINT unmount and end; SIGHUP takes a new snapshot; SIGUSR1 turns the debug log on and off. Its orders come
through a descriptor (see `messages`); its arguments show only the mountpoint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

from headrace.engine.handles import Engine
from headrace.engine.native import set_log
from headrace.engine.registry import Registry, own_entry
from headrace.errors import BusyError, HeadraceError
from headrace.exits import complaint
from headrace.roles.endpoint import Endpoint
from headrace.roles.logs import LogFile, set_python_level, start_python_log
from headrace.roles.messages import Answer, MountOrders

if TYPE_CHECKING:
    from headrace.roles.member import Follower

_log = logging.getLogger("headrace.mount")

_SIGNALS = {
    signal.SIGTERM: "end",
    signal.SIGINT: "end",
    signal.SIGHUP: "refresh",
    signal.SIGUSR1: "debug",
}
_WATCH_S = 3600.0


class MountProcess:
    """One mounted dataset. `serve` returns when it is no longer mounted."""

    def __init__(self, orders: MountOrders) -> None:
        self._orders = orders
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._level = orders.settings.log_level
        self._mounted = False
        self._follower: Follower | None = None

    def run(self, answer_descriptor: int | None) -> int:
        """Mounts, answers on the descriptor, serves; the exit code."""
        self._listen_to_signals()
        try:
            with contextlib.ExitStack() as stack:
                ready = self._start(stack)
                _reply(answer_descriptor, ready)
                answer_descriptor = None
                self._serve()
        except (
            Exception
        ) as error:  # the last line of defence: whatever it was, the starter and the log hear of it
            return self._fail(answer_descriptor, error)
        return 0

    def _start(self, stack: contextlib.ExitStack) -> Answer:
        orders = self._orders
        self._engine = stack.enter_context(Engine.own(orders.config))
        if orders.settings.metrics_address:
            endpoint = Endpoint(orders.settings.metrics_address, self._metrics, lambda: self._mounted)
            stack.callback(endpoint.close)
        self._mount = self._engine.mount(orders.mountpoint, orders.settings)
        stack.callback(self._unmount_for_good)
        self._mounted = True
        stack.enter_context(self._registered())
        self._follow_cluster(stack)
        threading.Thread(target=self._watch, name="watch", daemon=True).start()
        snapshot = self._engine.status().snapshot
        _log.info("mount/%s: %s files at %s", orders.config.name, snapshot.files, orders.mountpoint)
        return Answer(mode=self._mount.mode, files=snapshot.files, size_bytes=snapshot.bytes)

    def _follow_cluster(self, stack: contextlib.ExitStack) -> None:
        orders = self._orders
        if orders.member is not None and orders.config.cluster is not None:
            # Here, since a mount of one machine alone has no need of an HTTP client.
            from headrace.roles.member import Follower  # noqa: PLC0415

            cluster = orders.config.cluster
            self._follower = stack.enter_context(
                Follower(self._engine, orders.member, cluster.token, cluster.node, orders.mountpoint)
            )

    def _metrics(self) -> str:
        own = self._follower.metrics() if self._follower else ""
        return self._engine.metrics().removesuffix("# EOF\n") + own + "# EOF\n"

    @contextlib.contextmanager
    def _registered(self) -> Iterator[None]:
        orders = self._orders
        registry = Registry(orders.registry_directory)
        entry = own_entry(
            name=orders.config.name,
            mountpoint=str(orders.mountpoint),
            state_directory=str(orders.config.state_directory),
            origins=tuple(mount.label for mount in orders.config.origins),
            mode=self._mount.mode,
            log_file=str(orders.log_file) if orders.log_file else None,
            metrics_address=orders.settings.metrics_address,
        )
        registry.add(entry)
        try:
            yield
        finally:
            registry.remove(entry.mountpoint, pid=entry.pid)

    def _serve(self) -> None:
        while True:
            event = self._events.get()
            if event == "unmounted":
                self._mounted = False
                _log.info("mount/%s: unmounted", self._orders.config.name)
                return
            try:
                self._handle(event)
            except HeadraceError as error:
                _log.error("mount/%s: %s: %s", self._orders.config.name, event, error)

    def _handle(self, event: str) -> None:
        if event == "end":
            self._unmount()
        elif event == "refresh" and self._follower is not None:
            _log.info("mount/%s: snapshots are the master's; SIGHUP is for it", self._orders.config.name)
        elif event == "refresh":
            changes = self._engine.refresh()
            _log.info("mount/%s: refreshed: %s", self._orders.config.name, json.dumps(changes.model_dump()))
        elif event == "debug":
            self._level = self._orders.settings.log_level if self._level == "debug" else "debug"
            set_log(self._level, self._orders.settings.log_format)
            set_python_level(self._level)

    def _unmount(self) -> None:
        try:
            self._mount.unmount(force=False)
        except BusyError:
            # Told to end: new users are kept out, those inside finish with what they have open.
            _log.warning("mount/%s: still in use; detached", self._orders.config.name)
            self._mount.unmount(force=True)

    def _unmount_for_good(self) -> None:
        if self._mounted:
            self._mounted = False
            with contextlib.suppress(HeadraceError):
                self._unmount()

    def _watch(self) -> None:
        while not self._mount.wait(_WATCH_S):
            pass
        self._events.put("unmounted")

    def _listen_to_signals(self) -> None:
        def put(number: int, _frame: FrameType | None) -> None:
            self._events.put(_SIGNALS[signal.Signals(number)])

        for number in _SIGNALS:
            signal.signal(number, put)

    def _fail(self, answer_descriptor: int | None, error: Exception) -> int:
        answer = Answer.of_error(error)
        if not isinstance(error, HeadraceError):
            _log.exception("mount/%s: stopped by a fault", self._orders.config.name)
        elif answer_descriptor is not None:
            _log.error("mount/%s: %s", self._orders.config.name, error)
        _reply(answer_descriptor, answer)
        return answer.exit_code


def _reply(descriptor: int | None, answer: Answer) -> None:
    """Answers the starter. Without one, a fault goes to standard error, where a person may be looking."""
    if descriptor is not None:
        answer.send(descriptor)
    elif answer.error_kind is not None:
        sys.stderr.write(complaint(answer.as_error()) + "\n")


def main(arguments: list[str]) -> int:
    """`MOUNTPOINT ORDERS-DESCRIPTOR [ANSWER-DESCRIPTOR]`: for `headrace mount`, not for people."""
    orders = MountOrders.from_descriptor(int(arguments[1]))
    answer_descriptor = int(arguments[2]) if len(arguments) > 2 else None
    if answer_descriptor is not None:
        os.set_inheritable(answer_descriptor, False)
    if orders.log_file is not None:
        log_file = LogFile(orders.log_file)
        log_file.begin()
        log_file.watch()
    start_python_log(orders.settings.log_level, orders.settings.log_format)
    set_log(orders.settings.log_level, orders.settings.log_format)
    return MountProcess(orders).run(answer_descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
