"""The words that several commands share. Loads no settings, for commands that need none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import typer

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A mountpoint or a path below it, the name of a mounted dataset, or an origin together with its --cache.",
    ),
]
Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH]...", help="Files or folders: below the dataset's root, or below the mountpoint."
    ),
]
Cache = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH:QUOTA[:MEM|SSD|HDD]",
        help="A cache folder and its quota (100Gi, 200GB, 50% of its disk); again for more, fastest first; "
        "none for no cache.",
    ),
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An option of the origin, such as fs.oss.endpoint=…; a VALUE may be @FILE, env:NAME or prompt. "
        "NAME:KEY=VALUE is for one of several origins.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Leave out files and folders, as in a .gitignore: '*.tmp', '_temporary/', '/top/**/x'; again for more.",
    ),
]
Strict = Annotated[
    bool | None,
    typer.Option(
        "--strict",
        help="Refuse a list of files that leaves anything out but what is excluded, such as a folder that may not be "
        "read or a name that no file can have; without it, that is counted in headrace status.",
    ),
]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File (JSON or KEY=VALUE lines) or folder (a file for each key) with the origin's credentials.",
    ),
]
BlockSize = Annotated[str | None, typer.Option(metavar="SIZE", help="Size of a block: a power of two.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]


class MissingWords(typer.TyperException):
    """Words that a command lacks, where which ones are needed depends on the others."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.ctx = SimpleNamespace(command_path=command)


def ask(name: str) -> str:
    """Asks the person at the terminal for a credential."""
    answer: str = typer.prompt(name, hide_input=True, err=True)
    return answer
