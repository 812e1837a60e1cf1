"""The guard of a supervisor: a small process that starts the next supervisor when its own was killed or has crashed.

A guard that is killed is replaced by the supervisor (`guard_keeping`), so that any kills one after the other are
survived. A supervisor that ends as it was told to says so, and its guard ends as well. Until it is needed it loads
nothing.
"""

from __future__ import annotations

import os
import select
import sys
import time

DISMISSED = b"dismissed"
"""What a supervisor that ends in order says to its guard."""

# A supervisor that lived longer than this did not die of the way in which it was started.
_WELL_S = 60.0
_LONGEST_PAUSE_S = 30.0


def main() -> int:
    """The arguments say which process is guarded, and which descriptor holds the spec of the next one."""
    supervisor = int(sys.argv[1])
    began = time.monotonic()
    spec = _told_by(sys.argv[2:])
    if not spec or _ended_in_order(supervisor):
        return 0
    # Only now: a guard that waits is as small as an interpreter.
    from headrace.local.lifecycle.relaunch import relaunch  # noqa: PLC0415

    return relaunch(spec, was_well=time.monotonic() - began > _WELL_S, longest_pause_s=_LONGEST_PAUSE_S)


def _told_by(arguments: list[str]) -> bytes:
    """The spec; a supervisor from before an upgrade names no descriptor and writes it as the first line instead."""
    if not arguments:
        # Unbuffered: what the supervisor says later is looked for in the pipe itself.
        with os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0) as pipe:
            return pipe.readline()
    with os.fdopen(int(arguments[0]), "rb") as file:
        file.seek(0)
        return file.read()


def _ended_in_order(supervisor: int) -> bool:
    """Returns when it has ended: true if it has said so before."""
    descriptor = _open(supervisor)
    poll = select.poll()
    poll.register(sys.stdin.buffer, select.POLLIN)
    if descriptor is not None:
        poll.register(descriptor, select.POLLIN)
        poll.poll()
    # What it said is in the pipe by now, and nothing more can come.
    os.set_blocking(sys.stdin.fileno(), False)
    return DISMISSED in (sys.stdin.buffer.read() or b"")


def _open(supervisor: int) -> int | None:
    """A descriptor of the process; none if it has ended already, when another may have its number."""
    try:
        descriptor = os.pidfd_open(supervisor)
    except ProcessLookupError:
        return None
    # It started this process: as long as it lives it is the parent.
    return descriptor if os.getppid() == supervisor else None


if __name__ == "__main__":
    sys.exit(main())
