"""`headrace sync`: another try at what a writable mount could not put into its origin."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import options, printer
from headrace.cli.dataset_words import settings_of
from headrace.cli.targets import reach
from headrace.settings.environment import Environment


def run(
    target: Annotated[
        str, typer.Argument(metavar="MOUNTPOINT", help="A writable mount, or the name of its dataset.")
    ],
    ours: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Put it over whatever somebody else has put there meanwhile."),
    ] = None,
    theirs: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Give up what was written here, for what the origin holds."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Put what was written to a mount, and is not in the origin yet, there."""
    environment = Environment.current()
    reached = reach(target, settings_of(environment, option=None), environment)
    with reached.engine as engine:
        done = engine.sync(
            ours=reached.paths(ours) if ours else [], theirs=reached.paths(theirs) if theirs else []
        )
    if json:
        printer.as_json({"names": done})
    printer.say(f"synced {reached.name}: {done:,} names")
