"""The command `headrace`: one verb a module, and one place where errors become words and exit codes.

Of the verbs only the one that was said is loaded: what others need takes longer than many a command.
"""

from __future__ import annotations

import importlib
import sys

from headrace.cli import printer
from headrace.cli.streams import complete_streams
from headrace.cli.verbs import VERBS
from headrace.exits import ExitCode, complaint, exit_code


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code. Called by the `headrace` script, which exits with what it returns."""
    words = sys.argv[1:] if arguments is None else arguments
    complete_streams()
    try:
        result = _run(words, is_process=arguments is None)
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


def _run(words: list[str], *, is_process: bool) -> object:
    """Loads what these words need alone: what reads options takes longer to load than a role from a file, or than what
    is asked most often.
    """
    if not words or words[0] in ("-h", "--help"):
        importlib.import_module("headrace.cli.overview").show()
        return ExitCode.OK if words else ExitCode.USAGE
    if len(words) == 1 and words[0] in VERBS and (alone := VERBS[words[0]].alone):
        module, _, function = alone.partition(".")
        return getattr(importlib.import_module(f"headrace.cli.{module}"), function)()
    if is_process and _is_role_of_a_file(words):
        from_file = importlib.import_module("headrace.cli.from_file")
        file = from_file.Path(words[2])
        return from_file.begin_mount(file) if words[0] == "mount" else from_file.begin_role(words[0], file)
    return importlib.import_module("headrace.cli.application").run(words)


def _is_role_of_a_file(words: list[str]) -> bool:
    if len(words) < 3 or words[1] != "--config" or words[2][:1] == "-":
        return False
    return (words[0], words[3:]) in (("master", []), ("worker", []), ("mount", ["--foreground"]))


def fail(error: BaseException) -> int:
    """Tells what went wrong; the exit code for it."""
    # Here, since most commands do not fail.
    from headrace.settings.environment import Environment  # noqa: PLC0415

    if Environment.current().debug:
        import traceback  # noqa: PLC0415

        traceback.print_exception(error)
    printer.say(complaint(error))
    return int(exit_code(error))


if __name__ == "__main__":
    sys.exit(main())
