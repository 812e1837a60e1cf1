"""From one supervisor to the next: what a supervisor does with the keeper of its node, if it has one.

Begins with what an earlier supervisor left there, deposits what the next one needs, and decides whether an end that was
asked for is the end of the mount: with a keeper that holds it, it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from headrace.roles.keeper import inheriting
from headrace.roles.keeper.inheriting import Found
from headrace.roles.keeper.keeping import Kept
from headrace.roles.keeper.line import KeeperLine
from headrace.roles.keeper.messages import Deposit

_POLL_S = 1.0
_SHORT_POLL_S = 0.5
# Of a mount that is alive: for its keeper, or whoever serves it, to say something.
_INHERIT_S = 30.0
LEAVE_S = 10.0
"""For a keeper that is away to come back, and for the mount process to stop."""


class Step(Enum):
    """The next step of the supervisor."""

    NOTHING = "nothing"
    STOP = "stop"
    """Have the mount process stop without unmounting, and end."""
    KILL = "kill"
    """It has not stopped in time."""
    END = "end"
    """End the mount: nobody would hold it."""


class Succession:
    """A supervisor's part in it. Without a keeper there is none: nothing is found, and nothing is left."""

    def __init__(self, keeper: KeeperLine | None, say: Callable[[str, str], None]) -> None:
        self._keeper = keeper
        self._say = say
        self._leave_by_s: float | None = None
        self.is_leaving = False
        """True once the mount process was told to stop for the next supervisor."""

    @property
    def words(self) -> list[str]:
        """For the command line of the program that goes on as this supervisor."""
        return [] if self._keeper is None else ["keeper", self._keeper.path, self._keeper.lineage]

    @property
    def poll_s(self) -> float | None:
        """The interval at which there is something to look at; `None`: never."""
        if self._keeper is None:
            return None
        return _POLL_S if self._leave_by_s is None else _SHORT_POLL_S

    def inherit(self, mountpoint: str, wait: Callable[[float], bool]) -> Found:
        """The mount to go on with. `wait` lets some seconds pass, and is false when the supervisor shall end.

        `Found.wait` is why there could be no mount at all, if so.
        """
        if self._keeper is None:
            return Found()
        until_s, said = time.monotonic() + _INHERIT_S, None
        while (found := inheriting.find(mountpoint, self._keeper)).wait is not None:
            if found.wait != said:
                said = found.wait
                self._say("INFO", f"not mounted yet: {said}")
            if time.monotonic() > until_s:
                self._say("ERROR", f"cannot mount: {said}")
                return found
            if not wait(_SHORT_POLL_S):
                return found
        if found.kept is not None:
            self._say("INFO", "going on with the mount that the keeper held")
        return found

    def deposit(self, kept: Kept | None, restarts: int) -> None:
        """Makes sure that the keeper has what the next supervisor needs, as far as it can now."""
        if kept is None or self._keeper is None or kept.is_unmounted():
            return
        deposit = Deposit(
            mountpoint=kept.mountpoint,
            lineage=self._keeper.lineage,
            words=kept.words,
            name=kept.name,
            device=kept.device,
            log_file=kept.log_file,
            restarts=restarts,
        )
        if news := self._keeper.exchange(deposit, kept.connection, kept.ledger):
            self._say("INFO", news)

    def begin_to_leave(self) -> bool:
        """An end was asked for: false when it is to be the end of the mount, as there is no keeper."""
        if self._keeper is not None and self._leave_by_s is None:
            self._leave_by_s = time.monotonic() + LEAVE_S
        return self._keeper is not None

    def next_step(self) -> Step:
        """The next step."""
        if self._keeper is None or self._leave_by_s is None:
            return Step.NOTHING
        late = time.monotonic() > self._leave_by_s
        if self.is_leaving:
            return Step.KILL if late else Step.NOTHING
        if self._keeper.holds:
            self.is_leaving, self._leave_by_s = True, time.monotonic() + LEAVE_S
            return Step.STOP
        if late:
            self._leave_by_s = None
            return Step.END
        return Step.NOTHING

    def leave(self) -> bool:
        """True when the mount lives on without this supervisor, which ends now. The keeper may have gone meanwhile."""
        return self._keeper is not None and self._keeper.leave()

    def stay_for_now(self) -> None:
        """The supervisor cannot end yet, and will be asked for the next step again."""
        self.is_leaving, self._leave_by_s = False, time.monotonic() + LEAVE_S

    def end(self) -> None:
        """The supervisor ends. Unless the mount is left to the next one, the keeper forgets it."""
        if self.is_leaving:
            self._say("INFO", "left to the next supervisor; the keeper holds the mount, and programs wait")
        elif self._keeper is not None:
            self._keeper.withdraw()
