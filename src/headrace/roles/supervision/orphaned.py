"""A mount process whose supervisor has died: it becomes the supervisor itself, and starts its own successor.

So one of the two always holds the connection to the kernel, whichever is killed first. It is the same process before
and after, with another program in it: there is no moment in which two of them serve.
"""

from __future__ import annotations

import logging

from headrace.roles.keeper.keeping import Kept
from headrace.roles.messages import MountSpec
from headrace.roles.supervision import renewal
from headrace.roles.supervision.restarts import Restarts
from headrace.roles.supervision.trial import fault_of_installed

_log = logging.getLogger("headrace.mount")


def can_supervise(spec: MountSpec) -> bool:
    """True if the process may go on as the supervisor; the log says why not. With a keeper another one will come."""
    if spec.keeper is not None:
        return False
    if fault := fault_of_installed():
        _log.error("mount/%s: what is installed now does not start: %s", spec.config.name, fault)
        return False
    return True


def become_supervisor(spec: MountSpec, kept: Kept, restarts: int) -> None:
    """Returns only when that failed; the mount is ended then, so that nobody waits for it."""
    _log.warning("mount/%s: the supervisor has died: this process goes on as one", spec.config.name)
    counted = Restarts(count=restarts)
    counted.note_replacement()
    error = renewal.become(
        kept.mountpoint,
        spec.to_descriptor(),
        renewal.state_of(kept, counted, "went on as the supervisor, which had died"),
        kept.descriptors,
        (),
    )
    _log.error("mount/%s: cannot go on as the supervisor: %s", spec.config.name, error)
    kept.let_go()
