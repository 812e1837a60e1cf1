"""`headrace drain`: a worker hands its blocks over and ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import printer, role_options
from headrace.cli.master_client import ask_master
from headrace.cli.role_settings import settings_of_role
from headrace.errors import DeadlineError, HeadraceError
from headrace.roles.specs.resolved_settings import needed_master, needed_token
from headrace.settings.environment import Environment
from headrace.settings.roles import LoadSettings
from headrace.settings.sizes import format_size

if TYPE_CHECKING:
    from headrace.control.client import ControlClient

_POLL_EVERY_S = 1.0
_LINE_EVERY_S = 5.0
_GONE = ("drained", "left", "dead")


def run(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="The worker's id, as the status shows it.")],
    cluster: role_options.Cluster = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the drain.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "--no-wait", help="Do not wait until it has left.")
    ] = False,
    token_file: role_options.TokenFile = None,
) -> None:
    """Have a worker hand its blocks over to the others and end."""
    environment = Environment.current()
    settings = settings_of_role(LoadSettings, None, environment, master=cluster, token_file=token_file)
    master = needed_master(settings.master)
    token = needed_token(settings, environment)

    async def order(client: ControlClient) -> None:
        await client.drain(worker, cancel=cancel)
        if cancel or detach:
            printer.say(f"worker {worker} {'stays' if cancel else 'drains'}")
            return
        await _wait(client, worker)
        printer.say(f"worker {worker} has left")

    ask_master(master, token, order)


def _held_up(worker: str, folders: Sequence[str]) -> DeadlineError:
    return DeadlineError.of(
        f"worker {worker} cannot hand over what lies in {', '.join(folders)}: the disk does not answer",
        hint="the drain goes on when it does; if it never does, stop the worker: what only it had is fetched from the"
        f" storage again. `headrace drain {worker} --cancel` lets it stay",
    )


async def _wait(client: ControlClient, worker: str) -> None:
    loop = asyncio.get_running_loop()
    next_line_s = loop.time() + _LINE_EVERY_S
    while True:
        await asyncio.sleep(_POLL_EVERY_S)
        row: dict[str, Any] | None = {}
        with contextlib.suppress(HeadraceError):  # a master that is away comes back, and knows its order
            row = next((each for each in (await client.status())["workers"] if each["id"] == worker), None)
        if row is None or row.get("state") in _GONE:
            return
        if row and row.get("hanging_folders"):
            raise _held_up(worker, row["hanging_folders"])
        if row and loop.time() >= next_line_s:
            next_line_s = loop.time() + _LINE_EVERY_S
            done, total = format_size(row["drained_bytes"]), format_size(row["to_drain_bytes"])
            printer.say(f"drain: {done} of {total} handed over")
