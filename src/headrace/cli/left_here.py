"""States of this machine that mounts left behind: told of by `status`, removed by `prune` and, at last, by `mount`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from headrace.engine.left_states import LeftState, left_states, remove
from headrace.engine.registry import Registry
from headrace.settings.environment import Environment

_DAY_S = 24 * 3600.0
UNUSED_S = 7 * _DAY_S
"""What nobody used for so long is told of, and removed unless something else is said."""
_LONG_UNUSED_S = 30 * _DAY_S


def left_here(environment: Environment, *, unused_for_s: float, keep: Iterable[Path] = ()) -> list[LeftState]:
    """The mounts' remains in the folder of states, the longest unused first."""
    running = [Path(entry.state_directory) for entry in Registry(environment.runtime_directory).entries()]
    return left_states(environment.state_directory, [*running, *keep], time.time() - unused_for_s)


def forget_old(environment: Environment, keep: Path) -> None:
    """Takes away what nobody used for a month, but for the state of the mount that begins. Says and fails nothing."""
    for state in left_here(environment, unused_for_s=_LONG_UNUSED_S, keep=[keep]):
        with contextlib.suppress(OSError):
            remove(state)
