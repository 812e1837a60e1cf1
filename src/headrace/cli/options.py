"""The words that several commands share, and the settings that follow from them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from headrace.cli import printer
from headrace.engine.secrets import parse_options, plain_secrets
from headrace.settings.dataset import DatasetSettings
from headrace.settings.environment import Environment
from headrace.settings.toml_files import dataset_settings, read_file

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


def settings_of(environment: Environment, *, option: list[str] | None, **given: Any) -> DatasetSettings:
    """The dataset's settings: the command line over the configuration file. Warns of credentials in clear."""
    options = parse_options(option or [])
    for spelling in plain_secrets(options):
        printer.warn(
            f"the credential {spelling} stands on the command line, where other users may see it and your shell "
            "keeps it; use --secret-file, env:NAME or prompt"
        )
    if given.get("cache") is not None:
        given["cache"] = tuple(given["cache"])
    return dataset_settings(read_file(environment)["dataset"], options=options, **given)


def ask(name: str) -> str:
    """Asks the person at the terminal for a credential."""
    answer: str = typer.prompt(name, hide_input=True, err=True)
    return answer
