"""One mount process, as its supervisor sees it: started, listened to, watched until it is gone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from headrace.process.stat import stat_of
from headrace.roles.supervision.blame import oom_kills, was_killed
from headrace.roles.supervision.copied_process import CopiedProcess
from headrace.roles.supervision.lifeline import Lifeline, Message
from headrace.roles.supervision.relay import Relay

# -P keeps the current folder off the path of modules: a folder of data must not be able to replace one of ours.
PYTHON = (sys.executable, "-P")
_MOUNT_PROCESS = (*PYTHON, "-m", "headrace.roles.processes.mount")
# Of the two, the mount process is the one whose end frees memory and costs little.
_SUPERVISOR_SCORE, _MOUNT_SCORE = -900, -500


@dataclass(frozen=True, slots=True)
class Begun:
    """A mount process that began before its supervisor: its number, and the supervisor's ends of what joins them."""

    pid: int
    line: int
    relay: int


@dataclass
class Child:
    """The mount process that runs now."""

    process: subprocess.Popen[bytes] | CopiedProcess
    line: Lifeline
    relay: Relay
    exit_watch: int
    """Can be read from when the process is gone with all its threads."""
    serving_since_s: float | None = None
    dying_since_s: float | None = None
    ended: bool = False
    unclosed: bool = False
    """It has said that it leaves a cache folder as it is, since the disk hangs."""
    handed_over: bool = False
    is_to_hand_over: bool = False
    """As soon as it serves: it was wished for before."""
    oom_kills_before: int = field(default_factory=oom_kills)

    @classmethod
    def start(cls, mountpoint: str, spec: int, answer: int | None, begin: Message) -> Child:
        """Starts a mount process and tells it how to begin, with the end of a relay as the first descriptor."""
        ours, theirs = Lifeline.pair()
        descriptors = [spec, theirs.fileno(), *([] if answer is None else [answer])]
        process = subprocess.Popen(
            [*_MOUNT_PROCESS, mountpoint, *map(str, descriptors)],
            pass_fds=descriptors,
            # A Ctrl-C is for the supervisor, who ends it in order.
            process_group=0,
        )
        theirs.close()
        _spare(process.pid, _MOUNT_SCORE, only_from=_SUPERVISOR_SCORE)
        relay, relayed = Relay.pair()
        with relayed:
            ours.send(Message(begin.kind, begin.words, (relayed.fileno(), *begin.descriptors)))
        return cls(process, ours, relay, os.pidfd_open(process.pid))

    @classmethod
    def begun(cls, words: Begun) -> Child:
        """One that has begun already, and was told how (see `process_pair`)."""
        _spare(words.pid, _MOUNT_SCORE, only_from=0)
        line, relay = Lifeline.from_descriptor(words.line), Relay.from_descriptor(words.relay)
        return cls(CopiedProcess(words.pid), line, relay, os.pidfd_open(words.pid))

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.process.pid

    def served_s(self) -> float | None:
        """The time that it has served; `None` when it never did."""
        return None if self.serving_since_s is None else time.monotonic() - self.serving_since_s

    def was_killed(self, code: int) -> bool:
        """True when it was somebody else who ended it, with this code."""
        return was_killed(code, self.oom_kills_before)

    def forget(self) -> None:
        """Gives back what was needed to watch it."""
        os.close(self.exit_watch)
        self.line.close()
        self.relay.close()

    def dies_for_s(self) -> float:
        """The time since its first thread ended while others have not; 0.0 while it lives."""
        if not is_dying(self.pid):
            self.dying_since_s = None
            return 0.0
        now = time.monotonic()
        self.dying_since_s = self.dying_since_s or now
        return now - self.dying_since_s

    @property
    def is_kept_by_disk(self) -> bool:
        """True when nothing of it is left but threads that wait in the kernel for a disk: nobody can end those."""
        return self.unclosed and is_dying(self.pid)


def spare_supervisor() -> None:
    """Makes the kernel take other processes when memory runs out, where we may and nobody has decided otherwise."""
    _spare(os.getpid(), _SUPERVISOR_SCORE, only_from=0)


def is_dying(pid: int) -> bool:
    """True when the first thread of a process has ended, and it has not been waited for."""
    try:
        stat = stat_of(pid)
    except OSError:
        return False
    return stat is not None and stat.state == "Z"


def _spare(pid: int, score: int, *, only_from: int) -> None:
    setting = Path(f"/proc/{pid}/oom_score_adj")
    with contextlib.suppress(OSError, ValueError):
        if int(setting.read_text(encoding="ascii")) == only_from:
            setting.write_text(str(score), encoding="ascii")
