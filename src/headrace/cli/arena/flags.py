"""The flags of commands on jobs as a table, and functions that typer reads their signatures of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

Values = Mapping[str, Any]
"""Of flags and arguments, each under the name of its first long word: `working_dir`."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `kind` is bool, int, str, or list for a flag that may be said again."""

    words: tuple[str, ...]
    kind: type
    help: str
    default: Any = None
    metavar: str = ""

    @property
    def name(self) -> str:
        """`working_dir` of `--working-dir`."""
        return self.words[0].lstrip("-").replace("-", "_").lower()

    @property
    def takes_value(self) -> bool:
        """False for one that stands alone."""
        return self.kind is not bool


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a command that are no flags."""

    name: str
    metavar: str
    help: str
    several: bool = False
    optional: bool = False


def flag(words: str, kind: type, help_text: str, default: Any = None, metavar: str = "") -> Flag:
    """The flag that has these words, parted by blanks."""
    empty = {bool: False, int: 0, str: "", list: None}[kind]
    return Flag(tuple(words.split()), kind, help_text, empty if default is None else default, metavar)


def command(
    body: Callable[[Values], None], flags: Iterable[Flag], words: Sequence[Words] = ()
) -> Callable[..., None]:
    """A function for typer that has these parameters and calls `body` with their values."""

    def run(**values: Any) -> None:
        body({name: [] if value is None else value for name, value in values.items()})

    parameters = [*map(_argument, words), *map(_option, flags)]
    run.__doc__ = body.__doc__
    run.__name__ = body.__name__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _option(each: Flag) -> inspect.Parameter:
    metavar = each.metavar or {int: "COUNT", str: "TEXT", list: "TEXT"}.get(each.kind)
    said = f" Default: {each.default}." if each.default not in ("", 0, None) else ""
    option = typer.Option(*each.words, metavar=metavar, help=f"{each.help}{said}", show_default=False)
    kind: Any = (list[str] | None) if each.kind is list else each.kind
    return _parameter(each.name, Annotated[kind, option], each.default)


def _argument(each: Words) -> inspect.Parameter:
    argument = typer.Argument(metavar=each.metavar, help=each.help, show_default=False)
    kind: Any = list[str] if each.several else str
    default: Any = ("" if not each.several else None) if each.optional else inspect.Parameter.empty
    return _parameter(
        each.name, Annotated[kind | None if each.several and each.optional else kind, argument], default
    )


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
