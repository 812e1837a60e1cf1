"""The commands as those who write of them need them, read from the parser that the program itself uses: for completion
scripts and manual pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import typer.main

from headrace.cli.application import application
from headrace.cli.arena.main import application as jobs_application
from headrace.cli.overview import PURPOSE

_WORDS = re.compile(r"[a-z0-9-]+(\|[a-z0-9-]+)*")
_FILES = re.compile(r"FILE|PATH|SOCKET|ORIGIN|PROGRAM")


class Wanted(Enum):
    """The kind of value that a place takes."""

    ANYTHING = "anything"
    FILES = "files"
    FOLDERS = "folders"
    MOUNTS = "mounts"
    KINDS = "kinds"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its words, what it does, and, where it takes a value, its name, choices and kind."""

    words: tuple[str, ...]
    meaning: str
    value: str = ""
    choices: tuple[str, ...] = ()
    wanted: Wanted = Wanted.ANYTHING


@dataclass(frozen=True, slots=True)
class Argument:
    """One word, or several, that is no option."""

    value: str
    meaning: str
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Command:
    """One command with those below it. `path` holds its words, that of the program first."""

    path: tuple[str, ...]
    meaning: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...] = ()
    below: tuple[Command, ...] = ()
    is_alias: bool = False

    def walk(self) -> Iterator[Command]:
        """This one and all below it."""
        yield self
        for command in self.below:
            yield from command.walk()


def headrace() -> Command:
    """The command `headrace`; those of `arena` stand below `job`."""
    group: Any = typer.main.get_command(application())
    jobs: Any = typer.main.get_command(jobs_application())
    path = ("headrace",)
    below = (
        _command(jobs if name == "job" else command, (*path, name))
        for name, command in group.commands.items()
    )
    return Command(path, PURPOSE, _options(group), below=tuple(below))


def arena() -> Command:
    """The command `arena`."""
    return _command(typer.main.get_command(jobs_application()), ("arena",))


def _command(parsed: Any, path: tuple[str, ...]) -> Command:
    below = tuple(_command(each, (*path, name)) for name, each in getattr(parsed, "commands", {}).items())
    arguments = [each for each in parsed.params if each.param_type_name == "argument"]
    return Command(
        path,
        " ".join((parsed.help or "").split("\n\n")[0].split()),
        _options(parsed),
        tuple(map(_argument, arguments)),
        below,
        bool(parsed.hidden),
    )


def _options(parsed: Any) -> tuple[Option, ...]:
    options = [_option(each) for each in parsed.params if each.param_type_name != "argument"]
    return (*options, Option(("-h", "--help"), "Show this message and exit."))


def _option(parsed: Any) -> Option:
    words, meaning = (*parsed.opts, *parsed.secondary_opts), parsed.help or ""
    if parsed.is_flag:
        return Option(words, meaning)
    value = str(parsed.metavar or parsed.type.name.upper())
    choices = tuple(getattr(parsed.type, "choices", ()) or ())
    if not choices and _WORDS.fullmatch(value):
        choices = tuple(value.split("|"))
    wanted = (
        Wanted.FOLDERS if "FOLDER" in value else Wanted.FILES if _FILES.search(value) else Wanted.ANYTHING
    )
    return Option(words, meaning, value, tuple(map(str, choices)), wanted)


def _argument(parsed: Any) -> Argument:
    value = str(parsed.metavar or parsed.name.upper())
    meaning = getattr(parsed, "help", None) or ""
    if value.startswith("KIND"):
        return Argument(value, meaning, Wanted.KINDS)
    if "MOUNTPOINT" in value or "TARGET" in value:
        return Argument(value, meaning, Wanted.MOUNTS)
    return Argument(value, meaning, Wanted.FILES if _FILES.search(value) else Wanted.ANYTHING)
