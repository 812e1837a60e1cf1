"""The work of a guard when its supervisor was killed: it starts the next one, unless the backend is being taken
down."""

from __future__ import annotations

import contextlib
import logging
import time

from headrace.errors import BusyError, HeadraceError
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle import launch
from headrace.local.lifecycle.backend_lock import restarting
from headrace.local.protocol.messages import NodesWish, SupervisorSpec
from headrace.local.store.database import is_there
from headrace.roles.logs import start_python_log
from headrace.settings.environment import Environment

_log = logging.getLogger("headrace.local")

_MOST_TRIES = 20


def relaunch(spec_json: bytes, *, was_well: bool, longest_pause_s: float) -> int:
    """Starts a supervisor by the spec of the one before, at once if that `was_well` for a while, else after a pause
    that doubles each time. Returns an exit code; what failed is in the supervisor's log.
    """
    start_python_log("info")
    spec = SupervisorSpec.model_validate_json(spec_json)
    restarts = 0 if was_well else spec.restarts
    for restart in range(restarts, restarts + _MOST_TRIES):
        time.sleep(pause_s(restart, longest_pause_s))
        try:
            _start(spec.model_copy(update={"restarts": restart + 1}))
        except HeadraceError as error:
            _log.error("guard: the supervisor cannot be started anew: %s", error)
        else:
            return 0
    _log.error("guard: gives up after %d tries; `headrace up` starts the supervisor", _MOST_TRIES)
    return 1


def pause_s(restart: int, longest_s: float) -> float:
    """The time to wait before this restart, counted from zero: none, then a second, two, four."""
    return 0.0 if restart == 0 else min(longest_s, 2.0 ** min(restart - 1, 16))


def _start(spec: SupervisorSpec) -> None:
    layout = BackendLayout(spec.folder)
    if not is_there(layout.database):
        return
    with restarting(layout):
        if layout.taken_down.exists() or not is_there(layout.database):
            return
        _log.warning("guard: the supervisor was killed or has crashed; starting it anew")
        # Somebody may have called `headrace up` meanwhile.
        with contextlib.suppress(BusyError):
            launch.start_supervisor(spec.model_copy(update={"nodes": NodesWish()}), Environment.current())
