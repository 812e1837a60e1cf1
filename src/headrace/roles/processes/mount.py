"""The mount process: opens the engine, mounts, tells its starter, and serves until it is told to end.

SIGTERM and SIGINT unmount and end; SIGHUP takes a new snapshot; SIGUSR1 turns the debug log on and off. Its spec comes
through a descriptor (see `messages`); its arguments show the mountpoint, or are those of the command that it is a copy
of (see `process_pair`). Should it die, its supervisor starts another that goes on with the mount (see
`supervisor`); should the supervisor die, it takes its place (see `orphaned`).
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
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.engine.handles import Engine
from headrace.engine.native import set_log
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry, own_entry
from headrace.errors import BusyError, DeadlineError, HeadraceError
from headrace.exits import complaint, exit_code
from headrace.process.garbage import pass_over_what_is_there
from headrace.roles.keeper.keeping import Kept
from headrace.roles.logs import LogFile, set_python_level, start_python_log
from headrace.roles.messages import Answer, MountSpec
from headrace.roles.processes.signal_thread import hear_signals
from headrace.roles.supervision.lifeline import (
    ANSWERED,
    ENDED,
    HAND_OVER,
    HANDED_OVER,
    SERVING,
    UNCLOSED,
    Lifeline,
)
from headrace.roles.supervision.orphaned import become_supervisor, can_supervise
from headrace.roles.supervision.supervised import ALONE, Beginning, Supervision
from headrace.settings.engine import EngineConfig

if TYPE_CHECKING:
    from headrace.roles.cluster.follower import Follower

_log = logging.getLogger("headrace.mount")

_SIGNALS = {
    signal.SIGTERM: "end",
    signal.SIGINT: "end",
    signal.SIGHUP: "refresh",
    signal.SIGUSR1: "debug",
}
_WATCH_S = 3600.0


class MountProcess:
    """One mounted dataset. `run` returns when it is no longer mounted, or another process goes on with it."""

    def __init__(self, spec: MountSpec, supervision: Supervision | None = None) -> None:
        self._spec = spec
        self._supervision = supervision or Supervision()
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._level = spec.settings.log_level
        self._mounted = False
        self._has_served = False
        self._follower: Follower | None = None
        self._kept: Kept | None = None
        self._unclosed: DeadlineError | None = None

    def run(self, answer_descriptor: int | None) -> int:
        """Mounts or goes on, answers on the descriptor, serves; the exit code."""
        self._listen_to_signals()
        try:
            with contextlib.ExitStack() as stack:
                ready = self._start(stack)
                self._has_served = True
                self._supervision.tell(SERVING)
                told = (self._spec.config.name, ready.files, self._spec.mountpoint, self._config.limits)
                _log.info("mount/%s: %s files at %s; %s", *told)
                _reply(answer_descriptor, ready)
                answer_descriptor = None
                self._supervision.tell(ANSWERED)
                self._serve()
        except (
            Exception
        ) as error:  # the last line of defence: whatever it was, the starter and the log hear of it
            return self._fail(answer_descriptor, error)
        return 0 if self._unclosed is None else int(exit_code(self._unclosed))

    def go_on(self) -> None:
        """After `run`: becomes the supervisor where there is none to go on with the mount. Returns otherwise."""
        if self._kept is not None:
            become_supervisor(self._spec, self._kept, self._beginning.restarts)

    def _start(self, stack: contextlib.ExitStack) -> Answer:
        spec = self._spec
        beginning = self._supervision.begin()
        self._config = spec.config if beginning.kept is None else self._config_now()
        if beginning.kept is None:
            self._engine = Engine.own(self._config, spec.keys)
            stack.callback(self._close)
            self._open_endpoint(stack)
            self._mount = self._engine.mount(spec.mountpoint, spec.settings)
            self._mounted = True
            stack.callback(self._let_go)
            self._supervision.keep(self._mount, spec.config.name, spec.log_file)
        else:
            self._engine, self._mount = Engine.resume(
                self._config, spec.settings, beginning.kept, beginning.relay, spec.keys
            )
            stack.callback(self._close)
            self._mounted = self._has_served = True
            stack.callback(self._let_go)
            self._open_endpoint(stack)
        stack.enter_context(self._registered(beginning))
        self._follow_cluster(stack)
        threading.Thread(target=self._watch, name="watch", daemon=True).start()
        self._supervision.watch(self._events.put)
        files, size_bytes = self._engine.totals()
        return Answer(mode=self._mount.mode, files=files, size_bytes=size_bytes)

    def _config_now(self) -> EngineConfig:
        """The spec is of the first start; a member of a cluster goes by the last outlook that is known."""
        config = self._spec.config
        if config.cluster is None:
            return config
        # Here, since a mount of one machine alone has no need of it.
        from headrace.control.outlooks import config_by, last_outlook  # noqa: PLC0415

        return config_by(last_outlook(config.state_directory), config)

    def _open_endpoint(self, stack: contextlib.ExitStack) -> None:
        if address := self._spec.settings.metrics_address:
            # Here, since most mounts have none, and no need of an HTTP server.
            from headrace.roles.pages.endpoint import Endpoint  # noqa: PLC0415

            endpoint = Endpoint(address, self._metrics, lambda: self._mounted)
            stack.callback(endpoint.close)

    def _follow_cluster(self, stack: contextlib.ExitStack) -> None:
        spec = self._spec
        if spec.member is not None and self._config.cluster is not None:
            # Here, since a mount of one machine alone has no need of an HTTP client.
            from headrace.roles.cluster.follower import Follower  # noqa: PLC0415

            self._follower = stack.enter_context(
                Follower(self._engine, spec.member, self._config, spec.mountpoint, self._succeed)
            )

    def _succeed(self) -> None:
        self._events.put(HAND_OVER)

    def _metrics(self) -> str:
        own = self._follower.metrics() if self._follower else ""
        return self._engine.metrics().removesuffix("# EOF\n") + own + "# EOF\n"

    @contextlib.contextmanager
    def _registered(self, beginning: Beginning) -> Iterator[None]:
        entry = self._register(beginning)
        try:
            yield
        finally:
            # While the next process starts, the entry says that there is a mount.
            if not self._mount.handed_over:
                Registry(self._spec.registry_directory).remove(entry.mountpoint, pid=entry.pid)

    def _register(self, beginning: Beginning) -> Entry:
        spec = self._spec
        entry = own_entry(
            name=spec.config.name,
            mountpoint=str(spec.mountpoint),
            state_directory=str(spec.config.state_directory),
            origins=tuple(mount.label for mount in spec.config.origins),
            mode=self._mount.mode,
            log_file=str(spec.log_file) if spec.log_file else None,
            metrics_address=spec.settings.metrics_address,
            supervisor_pid=beginning.supervisor_pid,
            restarts=beginning.restarts,
            last_restart=beginning.reason,
            connection=self._mount.connection,
        )
        Registry(spec.registry_directory).add(entry)
        self._beginning = beginning
        return entry

    def _serve(self) -> None:
        while True:
            event = self._events.get()
            if event == "unmounted":
                self._mounted = False
                self._supervision.tell(ENDED)
                _log.info("mount/%s: unmounted", self._spec.config.name)
                return
            if event == HAND_OVER and self._supervision.keeps:
                self._hand_over()
                return
            if event == ALONE and can_supervise(self._spec):
                self._hand_over()
                return
            try:
                self._handle(event)
            except HeadraceError as error:
                _log.error("mount/%s: %s: %s", self._spec.config.name, event, error)

    def _handle(self, event: str) -> None:
        if event == "end":
            self._unmount()
        elif event == "refresh" and self._follower is not None:
            _log.info("mount/%s: snapshots are the master's; SIGHUP is for it", self._spec.config.name)
        elif event == "refresh":
            changes = self._engine.refresh()
            _log.info("mount/%s: refreshed: %s", self._spec.config.name, json.dumps(changes.model_dump()))
        elif event == "debug":
            self._level = self._spec.settings.log_level if self._level == "debug" else "debug"
            set_log(self._level, self._spec.settings.log_format)
            set_python_level(self._level)
        elif event == HAND_OVER:
            _log.error(
                "mount/%s: there is no supervisor to start the next process: unmount and mount again",
                self._spec.config.name,
            )
        elif event == ALONE:
            _log.warning(
                "mount/%s: the supervisor has died: this process serves on, but its end would end the mount",
                self._spec.config.name,
            )
            self._register(replace(self._beginning, supervisor_pid=None))

    def _hand_over(self) -> None:
        """Stops, and leaves the mount to the next process."""
        self._mounted = False
        kept = Kept.of(self._mount, self._spec.config.name, self._spec.log_file)
        self._mount.hand_over()
        if self._supervision.tell(HANDED_OVER):
            _log.info("mount/%s: handed over", self._spec.config.name)
        elif self._spec.keeper is None:
            self._kept = kept

    def _unmount(self) -> None:
        try:
            self._mount.unmount(force=False)
        except BusyError:
            # Told to end: new users are kept out, those inside finish with what they have open.
            _log.warning("mount/%s: still in use; detached", self._spec.config.name)
            self._mount.unmount(force=True)

    def _let_go(self) -> None:
        """After a fault: the next process goes on with the mount; without a supervisor there is none."""
        if not self._mounted:
            return
        self._mounted = False
        if self._supervision.keeps and self._has_served:
            # Not told as a wish: faults are counted.
            self._mount.hand_over()
            return
        with contextlib.suppress(HeadraceError):
            self._unmount()

    def _close(self) -> None:
        """Ends the engine, and says which cache folders it had to leave as they are."""
        try:
            self._engine.close()
        except DeadlineError as error:
            self._unclosed = error
            _log.error("mount/%s: %s; %s", self._spec.config.name, error.message, error.hint)
            Registry(self._spec.registry_directory).leave_word(str(self._spec.mountpoint), error.message)
            self._supervision.tell(UNCLOSED)

    def _watch(self) -> None:
        while not self._mount.wait(_WATCH_S):
            pass
        self._events.put("unmounted")

    def _listen_to_signals(self) -> None:
        hear_signals(_SIGNALS, lambda number: self._events.put(_SIGNALS[number]))

    def _fail(self, answer_descriptor: int | None, error: Exception) -> int:
        answer = Answer.of_error(error)
        if not isinstance(error, HeadraceError):
            _log.exception("mount/%s: stopped by a fault", self._spec.config.name)
        elif answer_descriptor is not None:
            _log.error("mount/%s: %s", self._spec.config.name, error)
        _reply(answer_descriptor, answer)
        return answer.exit_code


def _reply(descriptor: int | None, answer: Answer) -> None:
    """Answers the starter. Without one, a fault goes to standard error, where a person may be looking."""
    if descriptor is not None:
        answer.send(descriptor)
    elif answer.error_kind is not None:
        sys.stderr.write(complaint(answer.as_error()) + "\n")


def main(arguments: list[str]) -> int:
    """`MOUNTPOINT ORDERS LIFELINE [ANSWER]` (descriptors): for the supervisor, not for people."""
    spec = MountSpec.from_descriptor(int(arguments[1]))
    supervision = Supervision(Lifeline.from_descriptor(int(arguments[2])))
    answer_descriptor = int(arguments[3]) if len(arguments) > 3 else None
    if answer_descriptor is not None:
        os.set_inheritable(answer_descriptor, False)
    return begin(spec, supervision, answer_descriptor)


def begin(spec: MountSpec, supervision: Supervision, answer_descriptor: int | None = None) -> int:
    """Sets the logs of this process up, and runs a mount process to its end; the exit code."""
    if spec.log_file is not None:
        log_file = LogFile(spec.log_file)
        log_file.begin()
        log_file.watch()
    start_python_log(spec.settings.log_level, spec.settings.log_format)
    set_log(spec.settings.log_level, spec.settings.log_format)
    pass_over_what_is_there()
    process = MountProcess(spec, supervision)
    code = process.run(answer_descriptor)
    process.go_on()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
