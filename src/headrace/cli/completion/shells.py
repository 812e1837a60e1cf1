"""`headrace completion`: the script of a shell, for `headrace` and for `arena`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli import printer
from headrace.cli.completion import bash, commands, fish, zsh
from headrace.cli.completion.commands import Command


class Shell(StrEnum):
    """The shells that there are scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Program(StrEnum):
    """The programs whose words are completed."""

    HEADRACE = "headrace"
    ARENA = "arena"


_SCRIPTS: Mapping[Shell, Callable[[Command], str]] = {
    Shell.BASH: bash.script,
    Shell.ZSH: zsh.script,
    Shell.FISH: fish.script,
}
_PROGRAMS: Mapping[Program, Callable[[], Command]] = {
    Program.HEADRACE: commands.headrace,
    Program.ARENA: commands.arena,
}


def run(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
    program: Annotated[
        Program,
        typer.Option("--for", metavar="headrace|arena", help="The program whose words are completed."),
    ] = Program.HEADRACE,
) -> None:
    """Print a script by which a shell completes words: source <(headrace completion bash)."""
    printer.data(_SCRIPTS[shell](_PROGRAMS[program]()).rstrip("\n"))
