"""`headrace run`: any program on a virtual node, with datasets at the paths that it wants."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Annotated

import typer

from headrace.api.go_durations import parse_duration
from headrace.cli import backend, printer
from headrace.errors import ConfigError
from headrace.exits import complaint
from headrace.local.programs.exec_into_node import ProgramError, exec_into_node, wait_for_files
from headrace.local.protocol.messages import RunDataset, RunWish
from headrace.process.stat import started_ticks
from headrace.settings.environment import Environment

# What stands behind the program's name is the program's own.
CONTEXT = {"allow_interspersed_args": False}
_LONGEST_NAME = 64


def run(
    program: Annotated[
        list[str], typer.Argument(metavar="PROGRAM [WORD]...", help="The program and its words, as they are.")
    ],
    dataset: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[:/PATH]",
            help="A dataset, and where the program sees it; again for more. Without a path it is where "
            "HEADRACE_DATASET_NAME says.",
        ),
    ],
    namespace: backend.Namespace = None,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NODE", help="The node; without it the one with most of the data and fewest users."
        ),
    ] = None,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Time to wait for the files: 30s, 5m.")
    ] = "5m",
) -> None:
    """Run a program on a virtual node, with the files of datasets."""
    wish = RunWish(
        datasets=wished_datasets(dataset, namespace or backend.DEFAULT_NAMESPACE),
        node=node,
        pid=os.getpid(),
        started_ticks=started_ticks(os.getpid()) or 0,
        # Words of programs may be secrets; their names are not.
        program=PurePath(program[0]).name[:_LONGEST_NAME],
    )
    client = backend.client()
    state = wait_for_files(client, wish, timeout_s=parse_duration(timeout), tell=printer.say)
    try:
        exec_into_node(state, program, Environment.current().variables)
    except ProgramError as error:
        printer.say(complaint(error))
        raise typer.Exit(error.code) from None


def wished_datasets(words: list[str], namespace: str) -> tuple[RunDataset, ...]:
    """The datasets that `imagenet:/data` and the like mean. Raises `ConfigError`."""
    found: list[RunDataset] = []
    for word in words:
        name, colon, path = word.partition(":")
        if not name or (colon and not path.startswith("/")):
            raise ConfigError.of(
                f"'{word[:128]}' is no dataset with its path", hint="write NAME, or NAME:/path"
            )
        if name in {each.name for each in found}:
            raise ConfigError.of(f"dataset {name} is named twice", hint="name each dataset once")
        found.append(RunDataset(namespace=namespace, name=name, path=os.path.normpath(path) if path else ""))
    return tuple(found)
