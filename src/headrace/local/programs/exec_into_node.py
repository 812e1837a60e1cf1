"""How a command becomes a program on a virtual node: waits until the files are there, goes there, and is replaced.

There is no process between the caller and the program: signals, terminal and exit code are the program's own, and
whoever kills the command kills the program.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from headrace.errors import (
    ConfigError,
    DeadlineError,
    HeadraceError,
    MissingFileError,
    OriginUnreachableError,
)
from headrace.local.nodes.nsenter import Bind, enter
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import RunState, RunWish
from headrace.settings.environment import ROLE_MARK, dataset_variable

_POLL_S = 0.1

NOT_FOUND = 127
"""The exit code for a program that is not there, as shells have it."""

NOT_RUNNABLE = 126
"""The exit code for a program that may not be run, as shells have it."""


class ProgramError(ConfigError):
    """The program cannot be run; `code` is what shells answer then."""

    code: int = NOT_RUNNABLE


def wait_for_files(
    client: LocalClient, wish: RunWish, *, timeout_s: float, tell: Callable[[str], None]
) -> RunState:
    """The place of the program, once the files are there; `tell` hears what is waited for, each thing once.

    Raises what a person has to put right, and `DeadlineError` with the last thing that was waited for.
    """
    deadline = time.monotonic() + timeout_s
    state = client.begin_run(wish)
    try:
        told = ""
        while state.waiting:
            if state.waiting != told:
                told = state.waiting
                tell(f"waiting: {told}")
            if time.monotonic() >= deadline:
                raise DeadlineError.of(
                    f"the files are not there in time: {told}",
                    hint="headrace describe dataset; --timeout 30m waits longer",
                )
            time.sleep(_POLL_S)
            state = _state(client, state)
        return state
    except BaseException:
        with contextlib.suppress(HeadraceError):
            client.end_run(state.id)
        raise


def _state(client: LocalClient, before: RunState) -> RunState:
    """A supervisor that is away comes back, and knows of us."""
    try:
        client.hello()
    except (MissingFileError, OriginUnreachableError) as error:
        return before.model_copy(
            update={"waiting": f"{error.message} any more (`headrace up` starts it again)"}
        )
    return client.run(before.id)


def variables_of(state: RunState, environment: Mapping[str, str]) -> dict[str, str]:
    """The program's environment: the caller's, and where it is."""
    own = {
        ROLE_MARK: state.mark,
        "HEADRACE_NODE": state.node,
        "HEADRACE_NODE_ADDRESS": state.address,
        **{dataset_variable(place.name): place.path or place.mountpoint for place in state.places},
    }
    return {**environment, **own}


def exec_into_node(state: RunState, program: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Goes to the node and is the program from here on. Raises what keeps it from that; `ProgramError` for itself."""
    enter(state.network, [Bind(place.mountpoint, place.path) for place in state.places if place.path])
    # Python ignores these two, and a program that we become would go on ignoring them.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(program[0], list(program), variables_of(state, environment))  # noqa: S606
    except OSError as error:
        failed = ProgramError.of(f"{program[0]} cannot be run: {error.strerror}")
        failed.code = (
            NOT_FOUND if isinstance(error, (FileNotFoundError, NotADirectoryError)) else NOT_RUNNABLE
        )
        raise failed from None
