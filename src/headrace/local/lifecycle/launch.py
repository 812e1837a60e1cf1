"""Starts the supervisor in the background and waits until it answers; ends it again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from headrace.errors import BusyError, EngineError, HeadraceError
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle.backend_lock import is_owned, owner, restarting
from headrace.local.processes.child_environment import child_environment
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import BackendStatus, NodesWish, SupervisorSpec
from headrace.roles.launching.launch import raise_file_limit
from headrace.roles.messages import read_answer
from headrace.settings.environment import Environment
from headrace.trusted_folders import open_file

# -P keeps the current folder off the path of modules: a folder of data must not be able to replace one of ours.
_PROGRAM = (sys.executable, "-P", "-m", "headrace.local.supervisor")
# A machine that is busy makes the tables and the network of a first start in seconds, not in one.
_ANSWER_S = 30.0
_POLL_S = 0.05


def bring_up(
    layout: BackendLayout, wish: NodesWish, environment: Environment, *, release: str, idle: bool = False
) -> BackendStatus:
    """The backend with at least the wished nodes, started or already there. An `idle` one keeps what is declared.

    Raises what kept it from starting.
    """
    layout.make()
    layout.taken_down.unlink(missing_ok=True)
    if is_owned(layout) and _answers_soon(layout):
        return LocalClient(layout).add_nodes(wish)
    try:
        spec = SupervisorSpec(folder=layout.folder, nodes=wish, release=release, idle=idle)
        start_supervisor(spec, environment)
    except BusyError:
        # Somebody else started one at the same time.
        if not _answers_soon(layout):
            raise
        return LocalClient(layout).add_nodes(wish)
    return LocalClient(layout).status()


def stop(layout: BackendLayout, *, wait_s: float = 20.0) -> None:
    """Ends the supervisor if there is one, in order if it can; roles go on. No guard starts another one then.

    Raises `BusyError` when it does not end.
    """
    layout.taken_down.touch()
    with restarting(layout):
        for number in (signal.SIGTERM, signal.SIGKILL):
            pid = owner(layout)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if _ends(layout, wait_s / 2):
                return
    raise BusyError.of(f"the supervisor of {layout.folder} does not end", hint=f"its log is {layout.log}")


def _ends(layout: BackendLayout, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while is_owned(layout):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def start_supervisor(spec: SupervisorSpec, environment: Environment) -> None:
    """Starts one in the background and returns when it answers. Raises what kept it from starting."""
    layout = BackendLayout(spec.folder)
    raise_file_limit()
    ours, theirs = os.pipe()
    log = open_file(layout.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        process = subprocess.Popen(
            [*_PROGRAM, str(theirs)],
            pass_fds=[theirs],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=child_environment(environment),
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(theirs)
        os.close(log)
    try:
        _send(process, spec)
        answer = read_answer(ours)
    except BaseException:
        process.terminate()
        raise
    if answer is None:
        code = process.wait()
        raise EngineError.of(
            f"the supervisor ended with {code} before it was ready", hint=f"its log is {layout.log}"
        )
    if answer.error_kind is not None:
        process.wait()
    # It outlives us; we do not wait for it, and say so to the interpreter.
    process.returncode = 0
    answer.raise_if_failed()


def _send(process: subprocess.Popen[bytes], spec: SupervisorSpec) -> None:
    if process.stdin is not None:
        with process.stdin as spec_in:
            spec_in.write(spec.model_dump_json().encode())


def _answers_soon(layout: BackendLayout) -> bool:
    """True when whoever holds the lock answers; a supervisor that starts or ends needs a moment."""
    deadline = time.monotonic() + _ANSWER_S
    while is_owned(layout):
        try:
            LocalClient(layout).hello()
        except HeadraceError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return True
    return False
