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
from headrace.exits import ExitCode, complaint, exit_code
from headrace.settings.environment import Environment

VERBS: dict[str, tuple[str, str]] = {
    "mount": ("mount", "run"),
    "unmount": ("unmount", "run"),
    "restart": ("restart", "run"),
    "warm": ("warm", "run"),
    "evict": ("evict", "run"),
    "refresh": ("refresh", "run"),
    "verify": ("verify", "run"),
    "ls": ("ls", "run"),
    "status": ("status", "run"),
    "metrics": ("metrics", "run"),
    "master": ("master", "run"),
    "worker": ("worker", "run"),
    "load": ("load", "run"),
    "drain": ("drain", "run"),
    "copy": ("copy", "run"),
    "up": ("up", "run"),
    "down": ("up", "down"),
    "apply": ("apply", "run"),
    "create": ("apply", "create"),
    "get": ("get", "run"),
    "describe": ("describe", "run"),
    "delete": ("delete", "run"),
    "wait": ("wait", "run"),
    "scale": ("scale", "run"),
    "patch": ("patch", "run"),
    "edit": ("edit", "run"),
    "label": ("label", "run"),
    "annotate": ("label", "annotate"),
    "taint": ("label", "taint"),
    "events": ("events", "run"),
    "logs": ("logs", "run"),
    "run": ("run", "run"),
    "job": ("arena.job", "run"),
    "operator": ("operator", "run"),
    "sweep": ("sweep", "run"),
    "backup": ("backup", "run"),
    "restore": ("backup", "restore"),
    "webhook": ("webhook", "run"),
    "jobkeeper": ("jobkeeper", "run"),
    "csi": ("csi", "run"),
    "version": ("version", "run"),
}
"""In the order of the help: the module below `headrace.cli`, and its function."""


def application(verbs: Iterable[str] = tuple(VERBS)) -> typer.Typer:
    """The command with these verbs."""
    app = typer.Typer(
        name="headrace",
        help=_every_command.__doc__,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_every_command)
    for verb in verbs:
        module, function = VERBS[verb]
        loaded = importlib.import_module(f"headrace.cli.{module}")
        app.command(verb, context_settings=getattr(loaded, "CONTEXT", None))(getattr(loaded, function))
    return app


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
        app: Any = application(words[:1] if words[:1] and words[0] in VERBS else tuple(VERBS))
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
