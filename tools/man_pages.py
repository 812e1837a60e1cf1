"""The manual pages of section 1, from the parser that the programs use: one for each, and one for each verb of
`headrace`. They come with the wheel (`data` of maturin), so that `man headrace` finds them beside the program.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from headrace.cli.completion import commands
from headrace.cli.completion.commands import Command, Option
from headrace.exits import ExitCode
from headrace.settings.environment import HEADRACE_VARIABLES

FOLDER = Path("packaging/data/share/man/man1")
_NOTE = '.\\" Written by tools/generate.py from the code. Change the code, then run `make gen`.'
_ARENA_STATUS = {"0": "done", "1": "any fault", "2": "wrong words on the command line"}


def pages(root: Path) -> Mapping[Path, str]:
    """Every page, from the root of the repository."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    headrace, arena = commands.headrace(), commands.arena()
    verbs = [command for command in headrace.below if command.path[-1] != "job"]
    made = {
        "headrace": _overview(headrace, [f"headrace-{verb.path[-1]}" for verb in verbs]),
        "arena": _jobs(arena),
        "headrace-job": _alias(),
        **{f"headrace-{verb.path[-1]}": _verb(verb) for verb in verbs},
    }
    return {FOLDER / f"{name}.1": _page(name, version, lines) for name, lines in made.items()}


def _page(name: str, version: str, lines: Iterable[str]) -> str:
    body = list(lines)
    if body[0].startswith(".so"):
        return "\n".join([*body, _NOTE]) + "\n"
    title = f'.TH {_text(name).upper()} 1 "" "headrace {version}" "User Commands"'
    return "\n".join([_NOTE, title, *body]) + "\n"


def _overview(program: Command, others: list[str]) -> Iterator[str]:
    yield from _begin(program)
    yield from (".SH COMMANDS", "Each has a page of its own: headrace\\-mount(1) is that of headrace mount.")
    for verb in program.below:
        yield from (".TP", f".B {_text(verb.path[-1])}", _text(verb.meaning))
    yield from _options(program)
    yield from _status({str(int(code)): code.meaning for code in ExitCode})
    yield ".SH ENVIRONMENT"
    for name, meaning in HEADRACE_VARIABLES.items():
        yield from (".TP", f".B {_text(name)}", _text(meaning))
    yield ".SH FILES"
    for file in ("~/.config/headrace/config.toml", "/etc/headrace/config.toml"):
        yield from (".TP", f".I {_text(file)}", "The configuration; the first that exists counts.")
    yield from _see(["arena", *others])


def _jobs(program: Command) -> Iterator[str]:
    yield from _begin(program)
    yield ".SH COMMANDS"
    for command in program.walk():
        if command.is_alias or command.below:
            continue
        yield f".SS {_text(_synopsis(command))}"
        yield _text(command.meaning)
        for option in command.options:
            yield from _option(option)
    yield from _status(_ARENA_STATUS)
    yield from _see(["headrace"])


def _alias() -> Iterator[str]:
    yield ".so man1/arena.1"


def _verb(command: Command) -> Iterator[str]:
    yield from _begin(command)
    named = [argument for argument in command.arguments if argument.meaning]
    if named:
        yield ".SH ARGUMENTS"
    for argument in named:
        yield from (".TP", f".I {_text(argument.value)}", _text(argument.meaning))
    yield from _options(command)
    yield from (".SH EXIT STATUS", "As in headrace(1).")
    yield from _see(["headrace"])


def _begin(command: Command) -> Iterator[str]:
    name = "-".join(command.path)
    short = re.split(r"[.;:] |\.$", command.meaning)[0]
    yield from (".SH NAME", f"{_text(name)} \\- {_text(short[0].lower() + short[1:])}")
    yield from (".SH SYNOPSIS", f".B {_text(' '.join(command.path))}", _text(_words(command)))
    yield from (".SH DESCRIPTION", _text(command.meaning))


def _synopsis(command: Command) -> str:
    return f"{' '.join(command.path)} {_words(command)}"


def _words(command: Command) -> str:
    if command.below:
        return "[OPTION]... COMMAND [WORD]..."
    return " ".join(["[OPTION]...", *(argument.value for argument in command.arguments)])


def _options(command: Command) -> Iterator[str]:
    yield ".SH OPTIONS"
    for option in command.options:
        yield from _option(option)


def _option(option: Option) -> Iterator[str]:
    words = ", ".join(f"\\fB{_text(word)}\\fR" for word in option.words)
    value = f" \\fI{_text(option.value)}\\fR" if option.value else ""
    yield from (".TP", f"{words}{value}", _text(option.meaning) or "\\&")


def _status(meanings: Mapping[str, str]) -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in meanings.items():
        yield from (".TP", f".B {code}", _text(meaning[0].upper() + meaning[1:] + "."))


def _see(names: Iterable[str]) -> Iterator[str]:
    yield from (".SH SEE ALSO", ", ".join(f"{_text(name)}(1)" for name in names))


def _text(text: str) -> str:
    """What stands there as it is: no command of roff, and a minus that can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
