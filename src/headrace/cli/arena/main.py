"""The commands on training jobs, for `arena` and for `headrace job`, and one place where their errors become codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import typer

from headrace.cli import printer
from headrace.cli.application import call
from headrace.cli.arena import ending, get, logs, submit, watching
from headrace.cli.arena.flags import Flag, Values, Words, command
from headrace.cli.arena.old_command_lines import modern, split_globals
from headrace.cli.arena.output import Told
from headrace.cli.arena.submit_flags import OF_KIND
from headrace.cli.main import fail
from headrace.cli.streams import complete_streams
from headrace.exits import ExitCode
from headrace.jobs.spec import JobKind

_JOB = get.JOB
_JOBS = Words("jobs", "JOB...", "Names of jobs.", several=True)
_SUBMIT = {
    JobKind.MPI: ("mpi", "mpijob", "mj"),
    JobKind.PYTORCH: ("pytorch", "pytorchjob"),
    JobKind.TF: ("tf", "tfjob"),
}
_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_FAULT = 1


@dataclass(frozen=True, slots=True)
class Verb:
    """One command: its function, its flags, whether what stands behind its first word is another program's."""

    run: Callable[..., None]
    flags: tuple[Flag, ...]
    aliases: tuple[str, ...] = ()
    ends_at_first: bool = False


def _verb(
    body: Callable[[Values], None], flags: tuple[Flag, ...], words: Sequence[Words] = (), *aliases: str
) -> Verb:
    return Verb(command(body, flags, words), flags, aliases)


VERBS: dict[tuple[str, ...], Verb] = {
    **{
        ("submit", names[0]): Verb(submit.command_of(kind), OF_KIND[kind], names[1:], ends_at_first=True)
        for kind, names in _SUBMIT.items()
    },
    ("get",): _verb(get.get, get.GET_FLAGS, (_JOB,)),
    ("list",): _verb(get.list_jobs, get.LIST_FLAGS, (), "ls"),
    ("logs",): _verb(logs.logs, logs.FLAGS, (_JOB,), "log"),
    ("wait",): _verb(watching.wait, watching.WAIT_FLAGS, (_JOBS,)),
    ("delete",): _verb(ending.delete, ending.DELETE_FLAGS, (_JOBS,), "del"),
    ("release",): _verb(ending.release, ending.DELETE_FLAGS, (_JOB,)),
    ("attach",): _verb(watching.attach, watching.ATTACH_FLAGS, (_JOB, watching.SHELL)),
    ("prune",): _verb(ending.prune, ending.PRUNE_FLAGS),
    ("top", "job"): _verb(
        watching.top_job,
        watching.TOP_JOB_FLAGS,
        (Words("job", "[JOB]", "The job's name; without it all.", optional=True),),
    ),
    ("top", "node"): _verb(
        watching.top_node,
        watching.TOP_NODE_FLAGS,
        (Words("nodes", "[NODE]...", "Names of nodes; without them all.", several=True, optional=True),),
    ),
    ("data", "list"): _verb(watching.data_list, watching.DATA_FLAGS, (), "ls"),
}
"""In the order of the help."""

_GROUPS = {
    "submit": "Submit a training job.",
    "top": "Show GPUs of jobs and nodes.",
    "data": "Show volumes for jobs.",
}


def application() -> typer.Typer:
    """The command with all its verbs."""
    app = _group("arena", "Training jobs on accelerated data: submit, follow, end.")
    groups = {name: _group(name, text) for name, text in _GROUPS.items()}
    for words, verb in VERBS.items():
        parent = groups[words[0]] if len(words) > 1 else app
        for name in (words[-1], *verb.aliases):
            context = {**_HELP, "allow_interspersed_args": not verb.ends_at_first}
            parent.command(name, hidden=name != words[-1], context_settings=context)(verb.run)
    for name, group in groups.items():
        app.add_typer(group, name=name)
    app.command("version")(_version)
    return app


def arranged(words: Sequence[str]) -> list[str]:
    """The command line as typer takes it: flags behind the command's name, in today's spelling."""
    ahead, rest = split_globals(words)
    for path, verb in VERBS.items():
        length = len(path)
        names = (path[-1], *verb.aliases)
        if len(rest) >= length and tuple(rest[: length - 1]) == path[:-1] and rest[length - 1] in names:
            flags = {word: flag.takes_value for flag in verb.flags for word in flag.words}
            flags |= {"-h": False, "--help": False}
            said = [*ahead, *rest[length:]]
            return [*rest[:length], *modern(said, flags, ends_at_first=verb.ends_at_first, tell=_tell)]
    return list(rest)


def run(words: Sequence[str], program: str) -> int:
    """Runs a command line. Raises what commands raise; the exit code of those that end by themselves."""
    result = call(application(), arranged(words), program)
    sys.stdout.flush()
    return int(result) if isinstance(result, int) else 0


def main(arguments: list[str] | None = None) -> int:
    """The program `arena`; its exit code: 1 for any fault, as with Arena, 2 for wrong words.

    `arena wait` and `submit --wait` answer how the job ended, `attach` what its program did.
    """
    complete_streams()
    try:
        return run(sys.argv[1:] if arguments is None else arguments, "arena")
    except Told:
        return _FAULT
    except BrokenPipeError:
        # The reader of our output has what it wanted; nothing is flushed again at the end.
        sys.stdout = None
        return 0
    except (Exception, KeyboardInterrupt) as error:
        code = fail(error)
        return code if code in (ExitCode.USAGE, ExitCode.INTERRUPTED) else _FAULT


def _group(name: str, text: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings=_HELP,
    )


def _version() -> None:
    """Show the version."""
    from headrace.cli.version import run as show  # noqa: PLC0415 - loads the engine

    show()


def _tell(sentence: str) -> None:
    printer.say(f"notice: {sentence}")


if __name__ == "__main__":
    sys.exit(main())
