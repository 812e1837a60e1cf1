"""The supervisor of a mount: starts the mount process, keeps its connection, and starts the next one when it dies.

It opens nothing and serves nobody, so there is little in it that could fail: the connection to the kernel and what a
successor needs to know lie here as descriptors, and programs that read wait in the kernel until somebody answers again.

With a keeper even the death of this program is survived: copies of the descriptors lie in another pod, and the next
supervisor of the mountpoint goes on with them (see `succession`).

SIGINT ends the mount, and so does SIGTERM, unless a keeper holds it: then it is left to the next supervisor. SIGHUP and
SIGUSR1 go to the mount process; SIGUSR2 replaces it, and this program, by what is installed now.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from typing import Any

from headrace.exits import ExitCode
from headrace.roles.keeper.keeping import Kept
from headrace.roles.keeper.line import KeeperLine
from headrace.roles.keeper.succession import Step, Succession
from headrace.roles.supervision import lifeline, renewal, supervisor_log
from headrace.roles.supervision.backend_watch import BackendWatch
from headrace.roles.supervision.child import Begun, Child, spare_supervisor
from headrace.roles.supervision.lifeline import Message
from headrace.roles.supervision.relay import Relay
from headrace.roles.supervision.restarts import Restarts
from headrace.roles.supervision.supervisor_arguments import arguments_of
from headrace.roles.supervision.supervisor_signals import end_as, hear_signals
from headrace.roles.supervision.trial import fault_of_installed
from headrace.settings.environment import Environment

_FAULT = 1
_POLL_S = 5.0
_UNCLOSED_POLL_S = 0.2
_DYING_S = 30.0
_RELAY_S = 1.0
_AS_BEFORE = "going on as the supervisor that was installed before"


class Supervisor:
    """Looks after one mount. `run` returns the exit code when there is nothing left to look after."""

    def __init__(self, mountpoint: str, spec: int, keeper: KeeperLine | None = None) -> None:
        self._mountpoint = mountpoint
        self._spec = spec
        self._succession = Succession(keeper, self._say)
        self._selector = selectors.DefaultSelector()
        self._child: Child | None = None
        self._kept: Kept | None = None
        self._answer: int | None = None
        self._old_relays: list[Relay] = []
        self._restarts = Restarts()
        self._reason: str | None = None
        self._served = False
        self._ending = False
        self._start_at_s: float | None = None
        self._exit_code: int | None = None
        self._backend = BackendWatch.of(Environment.current().variables)

    def run(
        self,
        answer: int | None = None,
        adopted: dict[str, Any] | None = None,
        begun: Begun | None = None,
    ) -> int:
        """Starts the mount process, with the descriptor for its answer, or goes on for an earlier supervisor, or with a
        mount process that has begun.
        """
        spare_supervisor()
        self._answer = answer
        self._wakeup = hear_signals(self._selector, self._on_signal)
        if begun is not None:
            self._look_after(Child.begun(begun))
        elif adopted is not None:
            self._adopt(adopted)
        else:
            self._inherit()
        if self._exit_code is None and self._child is None:
            self._start()
        while self._exit_code is None:
            self._wait(self._patience_s())
            self._poll()
        self._succession.end()
        return self._exit_code

    def _wait(self, patience_s: float) -> bool:
        """Takes in what happens meanwhile; false when this is the end."""
        for key, _ in self._selector.select(patience_s):
            key.data()
        return self._exit_code is None

    def _patience_s(self) -> float:
        if self._start_at_s is not None:
            return max(self._start_at_s - time.monotonic(), 0)
        if self._child is not None and self._child.unclosed:
            return _UNCLOSED_POLL_S
        return self._succession.poll_s or _POLL_S

    def _poll(self) -> None:
        """What time alone brings about."""
        self._backend.look()
        if self._start_at_s is not None and time.monotonic() >= self._start_at_s and self._exit_code is None:
            self._start_at_s = None
            self._start()
        if self._child is not None and self._child.ended and self._child.is_kept_by_disk:
            self._leave_to_disk(self._child)
        elif self._child is not None:
            self._look_after_dying(self._child)
        if self._exit_code is None:
            self._succession.deposit(self._kept, self._restarts.count)
            self._follow(self._succession.next_step())

    # Starting

    def _inherit(self) -> None:
        """Goes on with what an earlier supervisor left, or finds the mountpoint free."""
        found = self._succession.inherit(self._mountpoint, self._wait)
        if found.wait is not None and self._exit_code is None:
            self._exit_code = int(ExitCode.BUSY)
        if found.kept is not None:
            self._kept, self._served = found.kept, True
            self._restarts.count = found.restarts
            self._reason = "ended with its supervisor"

    def _start(self) -> None:
        words = {"supervisor": os.getpid(), "restarts": self._restarts.count, "reason": self._reason}
        kept = self._kept
        descriptors = () if kept is None else kept.descriptors
        begin = Message(lifeline.BEGIN, {**words, "kept": kept and kept.words}, descriptors)
        child = Child.start(self._mountpoint, self._spec, self._answer, begin)
        if kept is not None:
            child.relay.start(kept.connection)
        self._look_after(child)

    def _look_after(self, child: Child) -> None:
        self._child = child
        self._selector.register(child.exit_watch, selectors.EVENT_READ, lambda: self._on_end(child))
        self._selector.register(child.line, selectors.EVENT_READ, lambda: self._on_message(child))

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
            self._kept = Kept.received(message.words, message.descriptors)
            child.relay.start(self._kept.connection)
            self._succession.deposit(self._kept, self._restarts.count)
        elif message.kind == lifeline.SERVING:
            child.serving_since_s = time.monotonic()
            if self._served:
                self._say("INFO", f"resumed by process {child.pid}; restarts so far: {self._restarts.count}")
            self._served = True
            if child.is_to_hand_over:
                self._hand_over()
        elif message.kind == lifeline.ANSWERED and self._answer is not None:
            os.close(self._answer)
            self._answer = None
        elif message.kind == lifeline.HANDED_OVER:
            child.handed_over = True
        elif message.kind == lifeline.ENDED:
            child.ended = True
        elif message.kind == lifeline.UNCLOSED:
            child.unclosed = True

    # How it ends

    def _on_end(self, child: Child) -> None:
        while message := child.line.receive(wait=False):
            self._understand(child, message)
        code = child.process.wait()
        self._forget(child)
        is_begun = self._is_begun(code)
        # Once the starter waits no more, programs are all that waits: whatever follows is tried as often as ever.
        self._served = self._served or (is_begun and self._answer is None)
        if not self._served and not is_begun:
            self._end_as(code)
        elif child.ended or (self._kept is not None and self._kept.is_unmounted()):
            self._exit_code = max(code, 0)
        elif self._succession.is_leaving:
            self._end_left()
        elif self._ending:
            self._let_go()
            self._exit_code = 0
        elif child.handed_over:
            self._reason = "was replaced"
            self._restarts.note_replacement()
            self._become_new()
        else:
            self._replace(child, code)

    def _is_begun(self, code: int) -> bool:
        """Whether the first mount process was killed when programs saw the mount already: they only wait, and so does
        whoever started it. One that ends by itself has said why.
        """
        return code < 0 and not self._ending and self._kept is not None and not self._kept.is_unmounted()

    def _replace(self, child: Child, code: int) -> None:
        self._reason = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        pause_s = self._restarts.note_end(child.served_s(), killed=child.was_killed(code))
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
        end_as(code)
        self._exit_code = code if code > 0 else _FAULT

    def _let_go(self) -> None:
        if self._kept is not None and not self._kept.let_go():
            self._say("ERROR", f"a dead mount is left: headrace unmount --lazy {self._kept.mountpoint}")

    def _leave_to_disk(self, child: Child) -> None:
        """The mount is gone; what the kernel keeps of its process is not waited for."""
        self._say("WARNING", f"process {child.pid} has ended, but for a thread that waits for a cache disk")
        self._forget(child)
        self._exit_code = int(ExitCode.UNREACHABLE)

    def _look_after_dying(self, child: Child) -> None:
        """A killed process whose thread hangs in the kernel does not end, and its successor cannot start. A thread that
        waits for an answer of our own mount hangs until the connection is ended.
        """
        if self._kept is not None and child.dies_for_s() > _DYING_S:
            self._say("ERROR", f"process {child.pid} was killed, but hangs in the kernel: ending the mount")
            self._kept.abort()

    # What people wish

    def _on_signal(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            may_leave = number == signal.SIGTERM and self._kept is not None
            if not (may_leave and self._succession.begin_to_leave()):
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

    def _follow(self, step: Step) -> None:
        child = self._child
        if step is Step.END:
            self._end()
        elif step is not Step.NOTHING and child is None:
            self._exit_code = 0
        elif step is Step.STOP and child is not None and child.serving_since_s is not None:
            child.line.send(Message(lifeline.HAND_OVER))
        elif step in (Step.STOP, Step.KILL) and child is not None:
            child.process.kill()  # one that does not serve yet would unmount when it is told to end

    def _end_left(self) -> None:
        if all(relay.has_ended(_RELAY_S) for relay in self._old_relays) and self._succession.leave():
            self._exit_code = 0
            return
        # A thread of this program waits in the kernel for an answer of the mount process: without one, neither ends.
        # Or the keeper has gone meanwhile: ending now would leave a dead mount behind.
        self._succession.stay_for_now()
        self._start()

    def _hand_over(self) -> None:
        child = self._child
        if child is None:
            return  # the next one starts from what is installed anyway
        if child.serving_since_s is None:
            child.is_to_hand_over = True
            return
        if fault := fault_of_installed():
            self._say("ERROR", f"not replaced: what is installed now does not start: {fault}")
            return
        child.line.send(Message(lifeline.HAND_OVER))

    def _become_new(self) -> None:
        """Goes on as the program that is installed now, with the same process number and children."""
        if self._kept is None:
            return
        # No other program can begin while a thread of this one hangs in the kernel, where it waits for an answer of the
        # mount process that is to be started.
        if not all(relay.has_ended(_RELAY_S) for relay in self._old_relays):
            self._say("WARNING", f"{_AS_BEFORE}: an invalidation is under way")
            self._start()
            return
        error = renewal.become(
            self._mountpoint,
            self._spec,
            renewal.state_of(self._kept, self._restarts, self._reason),
            self._kept.descriptors,
            self._succession.words,
        )
        self._say("ERROR", f"{_AS_BEFORE}: {error}")
        self._start()

    def _adopt(self, state: dict[str, Any]) -> None:
        self._kept, self._restarts, self._reason = renewal.adopted(state, self._spec)
        self._served = True

    def _say(self, level: str, text: str) -> None:
        kept = self._kept
        supervisor_log.say(
            kept.log_file if kept else None, kept.name if kept else self._mountpoint, level, text
        )


def main(arguments: list[str]) -> int:
    """The program: for `headrace mount`, not for people. Its words are those of `supervisor_arguments`."""
    words = arguments_of(arguments)
    supervisor = Supervisor(words.mountpoint, words.spec, words.keeper)
    return supervisor.run(words.answer, words.adopted, words.begun)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
