"""`headrace restart`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import printer
from headrace.engine.registry import Registry
from headrace.roles.supervision.replacing import replace_process
from headrace.settings.environment import Environment


def run(
    target: Annotated[
        str, typer.Argument(metavar="MOUNTPOINT", help="The mount, or the name of its dataset.")
    ],
) -> None:
    """Replace the program of a mount by what is installed now; programs keep their files open and only wait."""
    entry = replace_process(target, Registry(Environment.current().runtime_directory))
    printer.say(f"restarted {entry.mountpoint}: process {entry.pid}")
