"""A supervisor's own guard: there is always one, as long as the supervisor lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys

from headrace.local.lifecycle.guard import DISMISSED
from headrace.local.processes.child_environment import child_environment
from headrace.local.processes.process_tags import tag_of
from headrace.local.protocol.messages import SupervisorSpec
from headrace.settings.environment import ROLE_MARK, Environment

GUARD = "guard"
"""The tag of its process, as roles have one: `down` finds it by that."""

_log = logging.getLogger("headrace.local")

_PROGRAM = (sys.executable, "-P", "-m", "headrace.local.lifecycle.guard")
_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_END_S = 5.0


class GuardKeeper:
    """Starts the guard, and the next one when it is killed."""

    def __init__(self, spec: SupervisorSpec, instance: str, environment: Environment) -> None:
        self._spec = spec.model_dump_json().encode()
        self._variables = child_environment(environment) | {ROLE_MARK: tag_of(instance, GUARD)}
        self._guard: asyncio.subprocess.Process | None = None

    async def keep(self) -> None:
        """Keeps the guard until it is cancelled."""
        pause_s = _PAUSE_S
        while True:
            began = asyncio.get_running_loop().time()
            try:
                self._guard = await self._start()
                await self._guard.wait()
            except OSError as error:
                _log.warning("guard: cannot be started: %s", error.strerror)
            lived_s = asyncio.get_running_loop().time() - began
            pause_s = _PAUSE_S if lived_s > _LONGEST_PAUSE_S else min(2 * pause_s, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s / 2)

    async def dismiss(self) -> None:
        """Tells it that all is in order; after `keep` was cancelled. Returns when it has ended."""
        guard = self._guard
        if guard is None or guard.returncode is not None or guard.stdin is None:
            return
        with contextlib.suppress(OSError):
            guard.stdin.write(DISMISSED)
            await guard.stdin.drain()
        guard.stdin.close()
        try:
            await asyncio.wait_for(guard.wait(), _END_S)
        except TimeoutError:
            guard.kill()

    async def _start(self) -> asyncio.subprocess.Process:
        # Not told later: a guard knows what to start from its first moment, should this process be killed in the next.
        with os.fdopen(os.memfd_create("headrace-guard"), "wb", buffering=0) as memory:
            memory.write(self._spec)
            return await asyncio.create_subprocess_exec(
                *_PROGRAM,
                str(os.getpid()),
                str(memory.fileno()),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(memory.fileno(),),
                env=self._variables,
                cwd="/",
                start_new_session=True,
            )
