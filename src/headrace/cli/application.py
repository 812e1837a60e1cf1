"""The verbs as one command with options, which reads the words of a command line."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from headrace.cli import overview as help_text
from headrace.cli import printer
from headrace.cli.verbs import VERBS
from headrace.exits import ExitCode


def run(words: Sequence[str]) -> object:
    """The result of the verb of these words; the exit code where a word is wrong, which is printed."""
    app = application(words[:1]) if words and words[0] in VERBS else overview()
    return call(app, words, "headrace")


def call(app: Any, words: Sequence[str], program: str) -> object:
    """The same of any command that typer reads the words of."""
    try:
        return app(args=list(words), prog_name=program, standalone_mode=False)
    except typer.Exit as error:
        return int(error.exit_code)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        return _usage(error)


def application(verbs: Iterable[str] = tuple(VERBS)) -> typer.Typer:
    """The command with these verbs."""
    app = _without_verbs()
    for verb in verbs:
        loaded = importlib.import_module(f"headrace.cli.{VERBS[verb].module}")
        function = getattr(loaded, VERBS[verb].function)
        app.command(verb, context_settings=getattr(loaded, "CONTEXT", None))(function)
    return app


def _without_verbs() -> typer.Typer:
    app = typer.Typer(
        name="headrace",
        help=help_text.PURPOSE,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": help_text.LONGEST_LINE},
    )
    app.callback()(_every_command)
    return app


def overview() -> typer.Typer:
    """The command with the names of all verbs and none of their functions: for its own help, and for a wrong verb."""
    app = _without_verbs()
    for name, verb in VERBS.items():
        app.command(name, help=verb.summary)(_nothing)
    return app


def _nothing() -> None:
    """Stands for a verb that is only named."""


def _show_version(wanted: bool) -> None:
    if wanted:
        importlib.import_module("headrace.cli.version").run()
        raise typer.Exit


def _every_command(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help=help_text.OPTIONS["--version"]),
    ] = False,
) -> None:
    """Reads what stands before the verb."""


def _usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if message.startswith("Usage: "):
        printer.say(message)  # no verb was said: this is the help
    elif message:
        printer.say(f"error: {message[0].lower()}{message[1:].rstrip('.')}")
        printer.say(f"hint: {context.command_path if context else 'headrace'} --help")
    return int(ExitCode.USAGE)
