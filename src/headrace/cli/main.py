"""The command `headrace`: one verb a module, and one place where errors become words and exit codes.

Of the verbs only the one that was said is loaded: what others need takes longer than many a command.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from headrace.cli import printer
from headrace.cli.verbs import VERBS
from headrace.exits import ExitCode, complaint, exit_code
from headrace.settings.environment import Environment


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
        help=_every_command.__doc__,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
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
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end."),
    ] = False,
) -> None:
    """A bucket as fast local files: mount it, warm it, train from it."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code. Called by the `headrace` script, which exits with what it returns."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        app: Any = application(words[:1]) if words and words[0] in VERBS else overview()
        result = app(args=words, prog_name="headrace", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output, `head` for one, has what it wanted; nothing is flushed again at the end.
        sys.stdout = None
        return 0
    except (
        Exception,
        KeyboardInterrupt,
    ) as error:  # every failure ends in words and a code, never in a traceback
        return fail(error)
    return int(result) if isinstance(result, int) else 0


def fail(error: BaseException) -> int:
    """Tells what went wrong; the exit code for it."""
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, typer.Abort):
        error = KeyboardInterrupt()
    if isinstance(error, typer.TyperException):
        return _usage(error)
    if Environment.current().debug:
        traceback.print_exception(error)
    printer.say(complaint(error))
    return int(exit_code(error))


def _usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if not message:
        return int(ExitCode.USAGE)
    printer.say(f"error: {message[0].lower()}{message[1:].rstrip('.')}")
    printer.say(f"hint: {context.command_path if context else 'headrace'} --help")
    return int(ExitCode.USAGE)


if __name__ == "__main__":
    sys.exit(main())
