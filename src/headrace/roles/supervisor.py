"""The supervisor of a mount: starts the mount process, keeps its connection, and starts the next one when it dies.

It opens nothing and serves nobody, so there is little in it that could fail: the connection to the kernel and what a
successor needs to know lie here as descriptors, and programs that read wait in the kernel until somebody answers again.

SIGTERM and SIGINT end the mount; SIGHUP and SIGUSR1 go to the mount process; SIGUSR2 replaces it, and this program, by
what is installed now.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
from dataclasses import asdict
from typing import Any

from headrace.roles import lifeline
from headrace.roles.child import PYTHON, Child, spare_supervisor
from headrace.roles.keeping import Kept
from headrace.roles.lifeline import Message
from headrace.roles.relay import Relay
from headrace.roles.restarts import Restarts
from headrace.roles.trial import fault_of_installed

_THIS_PROGRAM = (*PYTHON, "-m", "headrace.roles.supervisor")
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_FAULT = 1
_LOOK_S = 5.0
_DYING_S = 30.0
_RELAY_S = 1.0


class Supervisor:
    """Looks after one mount. `run` returns the exit code when there is nothing left to look after."""

    def __init__(self, mountpoint: str, orders: int) -> None:
        self._mountpoint = mountpoint
        self._orders = orders
        self._selector = selectors.DefaultSelector()
        self._child: Child | None = None
        self._kept: Kept | None = None
        self._old_relays: list[Relay] = []
        self._restarts = Restarts()
        self._reason: str | None = None
        self._served = False
        self._ending = False
        self._start_at_s: float | None = None
        self._exit_code: int | None = None

    def run(self, answer: int | None = None, adopted: dict[str, Any] | None = None) -> int:
        """Starts the mount process, with the descriptor for its answer, or goes on for an earlier supervisor."""
        spare_supervisor()
        self._listen_to_signals()
        if adopted is not None:
            self._adopt(adopted)
        self._start(answer)
        while self._exit_code is None:
            for key, _ in self._selector.select(self._patience_s()):
                key.data()
            self._look()
        return self._exit_code

    def _patience_s(self) -> float:
        return _LOOK_S if self._start_at_s is None else max(self._start_at_s - time.monotonic(), 0)

    def _look(self) -> None:
        """What time alone brings about."""
        if self._start_at_s is not None and time.monotonic() >= self._start_at_s and self._exit_code is None:
            self._start_at_s = None
            self._start()
        if self._child is not None:
            self._look_after_dying(self._child)

    # Starting

    def _start(self, answer: int | None = None) -> None:
        words = {"supervisor": os.getpid(), "restarts": self._restarts.count, "reason": self._reason}
        kept = self._kept
        descriptors = () if kept is None else (kept.connection, kept.ledger)
        begin = Message(lifeline.BEGIN, {**words, "kept": kept and kept.words}, descriptors)
        child = Child.start(self._mountpoint, self._orders, answer, begin)
        if answer is not None:
            os.close(answer)
        if kept is not None:
            child.relay.start(kept.connection)
        self._child = child
        self._selector.register(child.exit_watch, selectors.EVENT_READ, lambda: self._on_end(child))
        self._selector.register(child.line, selectors.EVENT_READ, lambda: self._on_message(child))

    # What the mount process says

    def _on_message(self, child: Child) -> None:
        if child is not self._child:
            return
        message = child.line.receive(wait=False)
        if message is None:
            # It has ended, or will; its end tells more.
            self._selector.unregister(child.line)
            return
        self._understand(child, message)

    def _understand(self, child: Child, message: Message) -> None:
        if message.kind == lifeline.KEPT:
            connection, ledger = message.descriptors
            self._kept = Kept(**message.words, connection=connection, ledger=ledger)
            child.relay.start(connection)
        elif message.kind == lifeline.SERVING:
            child.serving_since_s = time.monotonic()
            if self._served:
                self._say("INFO", f"resumed by process {child.pid}; restarts so far: {self._restarts.count}")
            self._served = True
        elif message.kind == lifeline.HANDED_OVER:
            child.handed_over = True
        elif message.kind == lifeline.ENDED:
            child.ended = True

    # How it ends

    def _on_end(self, child: Child) -> None:
        while message := child.line.receive(wait=False):
            self._understand(child, message)
        code = child.process.wait()
        self._forget(child)
        if not self._served:
            self._end_as(code)
        elif child.ended or (self._kept is not None and self._kept.is_unmounted()):
            self._exit_code = max(code, 0)
        elif self._ending:
            self._let_go()
            self._exit_code = 0
        elif child.handed_over:
            self._reason = "was replaced"
            self._restarts.note_replacement()
            self._become_new()
        else:
            self._replace(child, code)

    def _replace(self, child: Child, code: int) -> None:
        self._reason = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        served_s = None if child.serving_since_s is None else time.monotonic() - child.serving_since_s
        pause_s = self._restarts.note_end(served_s)
        if pause_s is None:
            self._say("ERROR", f"process {child.pid} {self._reason}, as others before it: giving up")
            self._let_go()
            self._exit_code = code if code > 0 else _FAULT
            return
        when = "now" if pause_s == 0 else f"in {pause_s:g} s"
        self._say("WARNING", f"process {child.pid} {self._reason}; programs wait, the next starts {when}")
        self._start_at_s = time.monotonic() + pause_s

    def _forget(self, child: Child) -> None:
        for watched in (child.exit_watch, child.line):
            with contextlib.suppress(KeyError):
                self._selector.unregister(watched)
        child.forget()
        self._old_relays = [relay for relay in (*self._old_relays, child.relay) if not relay.has_ended(0)]
        self._child = None

    def _end_as(self, code: int) -> None:
        """The first mount process ended before it was ready: its starter shall see how."""
        self._let_go()
        if code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        self._exit_code = code if code > 0 else _FAULT

    def _let_go(self) -> None:
        if self._kept is not None and not self._kept.let_go():
            self._say("ERROR", f"a dead mount is left: headrace unmount --lazy {self._kept.mountpoint}")

    def _look_after_dying(self, child: Child) -> None:
        """A killed process whose thread hangs in the kernel does not end, and its successor cannot start. A thread that
        waits for an answer of our own mount hangs until the connection is ended.
        """
        if self._kept is not None and child.dies_for_s() > _DYING_S:
            self._say("ERROR", f"process {child.pid} was killed, but hangs in the kernel: ending the mount")
            self._kept.abort()

    # What people wish

    def _listen_to_signals(self) -> None:
        reader, writer = socket.socketpair()
        for end in (reader, writer):
            end.setblocking(False)
        signal.set_wakeup_fd(writer.fileno())
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        self._selector.register(reader, selectors.EVENT_READ, lambda: self._on_signals(reader))
        self._wakeup = (reader, writer)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _on_signals(self, reader: socket.socket) -> None:
        for number in reader.recv(64):
            if number in (signal.SIGTERM, signal.SIGINT):
                self._end()
            elif number == signal.SIGUSR2:
                self._hand_over()
            elif self._child is not None and self._child.serving_since_s is not None:
                self._child.process.send_signal(number)

    def _end(self) -> None:
        self._ending = True
        if self._child is not None:
            self._child.process.terminate()
        else:
            self._let_go()
            self._exit_code = 0

    def _hand_over(self) -> None:
        child = self._child
        if child is None or child.serving_since_s is None:
            return  # the next one starts from what is installed anyway
        if fault := fault_of_installed():
            self._say("ERROR", f"not replaced: what is installed now does not start: {fault}")
            return
        child.line.send(Message(lifeline.HAND_OVER))

    # From one installed version to the next

    def _become_new(self) -> None:
        """Goes on as the program that is installed now, with the same process number and children."""
        if self._kept is None:
            return
        # No other program can begin while a thread of this one hangs in the kernel, where it waits for an answer of the
        # mount process that is to be started.
        if not all(relay.has_ended(_RELAY_S) for relay in self._old_relays):
            self._say(
                "WARNING",
                "going on as the supervisor that was installed before: an invalidation is under way",
            )
            self._start()
            return
        state = {"kept": asdict(self._kept), "restarts": asdict(self._restarts), "reason": self._reason}
        memory = os.memfd_create("headrace-supervisor")
        os.write(memory, json.dumps(state).encode())
        for descriptor in (memory, self._orders, self._kept.connection, self._kept.ledger):
            os.set_inheritable(descriptor, True)
        # A signal that comes between two programs waits for the second one.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        words = [*_THIS_PROGRAM, self._mountpoint, str(self._orders), "adopt", str(memory)]
        try:
            os.execv(sys.executable, words)  # noqa: S606 - our own program
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._say("ERROR", f"going on as the supervisor that was installed before: {error}")
            os.close(memory)
            self._start()

    def _adopt(self, state: dict[str, Any]) -> None:
        self._kept = Kept(**state["kept"])
        for descriptor in (self._orders, self._kept.connection, self._kept.ledger):
            os.set_inheritable(descriptor, False)
        self._restarts = Restarts(**state["restarts"])
        self._reason = state["reason"]
        self._served = True

    def _say(self, level: str, text: str) -> None:
        """One line in the log of the mount process, which may have begun a new file: so it is opened each time."""
        name = self._kept.name if self._kept else self._mountpoint
        now = time.time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f",{int(now % 1 * 1000):03d}"
        line = f"{stamp} {level} headrace.supervisor: mount/{name}: {text}\n".encode()
        log_file = self._kept.log_file if self._kept else None
        with contextlib.suppress(OSError):
            if log_file is None:
                os.write(2, line)
                return
            descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.write(descriptor, line)
            os.close(descriptor)


def main(arguments: list[str]) -> int:
    """`MOUNTPOINT ORDERS [ANSWER | adopt STATE]` (descriptors): for `headrace mount`, not for people."""
    supervisor = Supervisor(arguments[0], int(arguments[1]))
    os.set_inheritable(int(arguments[1]), False)
    if arguments[2:3] == ["adopt"]:
        with os.fdopen(int(arguments[3]), "rb") as file:
            file.seek(0)
            return supervisor.run(adopted=json.load(file))
    if not arguments[2:]:
        return supervisor.run()
    os.set_inheritable(int(arguments[2]), False)
    return supervisor.run(int(arguments[2]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
