"""The command `headrace`: one verb a module, and one place where errors become words and exit codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli import (
    apply,
    delete,
    describe,
    drain,
    events,
    evict,
    get,
    load,
    logs,
    ls,
    master,
    metrics,
    mount,
    printer,
    refresh,
    restart,
    scale,
    status,
    unmount,
    up,
    verify,
    version,
    wait,
    warm,
    worker,
)
from headrace.exits import ExitCode, complaint, exit_code
from headrace.settings.environment import Environment

app = typer.Typer(
    name="headrace",
    help="A bucket as fast local files: mount it, warm it, train from it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

VERBS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("mount", mount.run),
    ("unmount", unmount.run),
    ("restart", restart.run),
    ("warm", warm.run),
    ("evict", evict.run),
    ("refresh", refresh.run),
    ("verify", verify.run),
    ("ls", ls.run),
    ("status", status.run),
    ("metrics", metrics.run),
    ("master", master.run),
    ("worker", worker.run),
    ("load", load.run),
    ("drain", drain.run),
    ("up", up.run),
    ("down", up.down),
    ("apply", apply.run),
    ("create", apply.create),
    ("get", get.run),
    ("describe", describe.run),
    ("delete", delete.run),
    ("wait", wait.run),
    ("scale", scale.run),
    ("events", events.run),
    ("logs", logs.run),
    ("version", version.run),
)
"""In the order of the help."""

for _name, _verb in VERBS:
    app.command(_name)(_verb)


def _show_version(wanted: bool) -> None:
    if wanted:
        version.run()
        raise typer.Exit


@app.callback()
def _every_command(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end."),
    ] = False,
) -> None:
    """A bucket as fast local files: mount it, warm it, train from it."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code. Called by the `headrace` script, which exits with what it returns."""
    try:
        result = app(args=arguments, prog_name="headrace", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output, `head` for one, has what it wanted; nothing is flushed again at the end.
        sys.stdout = None
        return 0
    except (
        Exception,
        KeyboardInterrupt,
    ) as error:  # every failure ends in words and a code, never in a traceback
        return _fail(error)
    return int(result) if isinstance(result, int) else 0


def _fail(error: BaseException) -> int:
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
