"""The interval at which Python looks for rings of garbage in a process of ours; an object in no ring goes at once, by
its count."""

from __future__ import annotations

import atexit
import gc

# A process makes a hundred thousand objects while it begins, and all of them stay. By default Python looks through the
# young ones after every 700, through all of them again and again, and once more before it ends: a quarter of the
# processor time of a command, or of a role that starts (user time of importing `headrace.local.supervisor` on a busy
# machine, the least of eight: 0.82 s, this way 0.56 s; of the operator 1.11 s and 0.81 s). One look through the hundred
# thousand alone took 0.08 s there, so that there is none until a program serves. 50,000 objects are a few megabytes.
_OBJECTS_AT_FIRST = 200_000
_YOUNG_OBJECTS = 50_000
_YOUNG_ROUNDS = 20
_OLDER_ROUNDS = 20


def collect_seldom() -> None:
    """Makes collections rare, and leaves out that of the process' end. For programs: it is for the whole process."""
    if gc.get_threshold()[0] in (_OBJECTS_AT_FIRST, _YOUNG_OBJECTS):
        return
    gc.set_threshold(_OBJECTS_AT_FIRST, _YOUNG_ROUNDS, _OLDER_ROUNDS)
    atexit.register(gc.freeze)


def pass_over_what_is_there() -> None:
    """No later collection looks at the objects of now. For programs that have begun and are about to serve for long."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_ROUNDS, _OLDER_ROUNDS)
