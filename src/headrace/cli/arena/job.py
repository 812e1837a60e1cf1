"""`headrace job`: the commands of `arena`, with the exit codes of `headrace`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.arena import main
from headrace.cli.arena.output import Told

# All words are the inner command's, --help as well.
CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": True, "help_option_names": []}


def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VERB [WORD]...", help="submit, get, list, logs, wait, delete, …: see `arena`."
        ),
    ] = None,
) -> None:
    """Training jobs: everything that `arena` does, with these exit codes."""
    try:
        code = main.run(words or ["--help"], "headrace job")
    except Told as told:
        raise typer.Exit(told.code) from None
    if code:
        raise typer.Exit(code)
