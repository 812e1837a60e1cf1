"""`headrace unmount`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import printer
from headrace.engine.registry import Registry
from headrace.errors import DeadlineError
from headrace.roles.mountpoint.mountpoints import unmount
from headrace.settings.environment import Environment
from headrace.settings.paths import absolute


def run(
    # Nobody looks at it before: a mount whose process stands still would answer nothing.
    mountpoint: Annotated[Path, typer.Argument(metavar="MOUNTPOINT", parser=Path)],
    lazy: Annotated[
        bool, typer.Option("--lazy", help="Detach now; the mount ends when the last file is closed.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="End it now; reads under way fail.")] = False,
) -> None:
    """End a mount; the cache stays."""
    folder = absolute(mountpoint)
    left = unmount(folder, Registry(Environment.current().runtime_directory), force=force, lazy=lazy)
    printer.say(f"unmounted {folder}")
    if left is not None:
        raise DeadlineError.of(
            left,
            hint="the files there are checked at the next start; until the disk answers, mount without that folder",
        )
