"""The tables of a completion script, whatever the shell: which words lead on, and what may stand in a place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.api.kinds import KINDS
from headrace.cli.completion.commands import Command, Option, Wanted

MOUNT_KIND = "fuse.headrace"
"""The kind of our mounts in /proc/self/mounts: `MOUNT_KIND` of `crates/engine/src/fuse/mountinfo.rs`."""


class Value(NamedTuple):
    """A place behind an option."""

    place: str
    option: Option


def paths(program: Command) -> list[str]:
    """The words of each command below the program: `headrace job submit mpi`."""
    return [" ".join(command.path) for command in program.walk() if command is not program]


def values(program: Command) -> Iterator[Value]:
    """The places behind options that take a value: `headrace mount --mode`."""
    for command in program.walk():
        for option in command.options:
            if option.value:
                for word in option.words:
                    yield Value(f"{' '.join(command.path)} {word}", option)


def verbs(command: Command) -> dict[str, str]:
    """The commands right below this one with what they do, but for other names of the same."""
    return {each.path[-1]: each.meaning for each in command.below if not each.is_alias}


def options(command: Command) -> dict[str, str]:
    """The words of its options with what they do."""
    return {word: option.meaning for option in command.options for word in option.words}


def wanted(command: Command) -> set[Wanted]:
    """The words of a command that are no options."""
    return {argument.wanted for argument in command.arguments}


def kinds() -> list[str]:
    """The names of declared objects in a command."""
    return sorted({word for kind in KINDS.values() for word in (kind.singular, kind.plural)} | {"all"})
