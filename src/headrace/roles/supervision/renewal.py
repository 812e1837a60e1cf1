"""From one installed version of the supervisor to the next: same process number, same children, another program."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from headrace.roles.keeper.keeping import Kept
from headrace.roles.supervision.child import PYTHON
from headrace.roles.supervision.restarts import Restarts

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Those that a supervisor listens to."""
_PROGRAM = (*PYTHON, "-m", "headrace.roles.supervision.supervisor")


def become(
    mountpoint: str, spec: int, state: dict[str, Any], descriptors: Iterable[int], words: Iterable[str]
) -> OSError:
    """Becomes the supervisor that is installed now, which adopts `state` and the descriptors. Returns what failed."""
    memory = os.memfd_create("headrace-supervisor")
    os.write(memory, json.dumps(state).encode())
    for descriptor in (memory, spec, *descriptors):
        os.set_inheritable(descriptor, True)
    # A signal that comes between two programs waits for the second one.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        os.execv(sys.executable, [*_PROGRAM, mountpoint, str(spec), "adopt", str(memory), *words])  # noqa: S606
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(memory)
        return error


def state_of(kept: Kept, restarts: Restarts, reason: str | None) -> dict[str, Any]:
    """The state that the next program must know."""
    # A program that was installed earlier knows no other words; that the counts in a row begin anew was wished for.
    counts = {"count": restarts.count, "quick_in_a_row": restarts.quick_in_a_row}
    known = {name: value for name, value in asdict(kept).items() if value is not None or name != "apart"}
    return {"kept": known, "restarts": counts, "reason": reason}


def adopted(state: dict[str, Any], spec: int) -> tuple[Kept, Restarts, str | None]:
    """The state that the program before knew. No child inherits its descriptors, nor the one of the spec."""
    kept = Kept(**state["kept"])
    for descriptor in (spec, *kept.descriptors):
        os.set_inheritable(descriptor, False)
    return kept, Restarts(**state["restarts"]), state["reason"]
