"""The script for fish: to be sourced, or kept in a folder of completions."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.cli.completion import tables
from headrace.cli.completion.commands import Command, Option, Wanted

_HEAD = r"""# Completion of {name} for fish, written by `headrace completion fish`.

function __{name}_at
    set -l at {name}
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        switch "$at $word"
            case {paths}
                set at "$at $word"
        end
    end
    test "$at" = "$argv"
end

function __{name}_mounts
    while read -l --delimiter ' ' source folder kind rest
        test "$kind" = {mount_kind}; and printf '%b\n' $folder
    end </proc/self/mounts
end

complete -c {name} -f
{completions}
"""


def script(program: Command) -> str:
    """The whole script."""
    (name,) = program.path
    return _HEAD.format(
        name=name,
        mount_kind=tables.MOUNT_KIND,
        paths=" ".join(map(_quoted, tables.paths(program))),
        completions="\n".join(line for command in program.walk() for line in _command(name, command)),
    )


def _command(name: str, command: Command) -> Iterator[str]:
    begin = f"complete -c {name} -n {_quoted(f'__{name}_at ' + ' '.join(command.path))}"
    for verb, meaning in tables.verbs(command).items():
        yield f"{begin} -a {_quoted(verb)} -d {_quoted(meaning)}"
    for option in command.options:
        yield f"{begin} {_words(option)}{_value(option)} -d {_quoted(option.meaning)}"
    wanted = tables.wanted(command)
    if Wanted.KINDS in wanted:
        yield f"{begin} -a {_quoted(' '.join(tables.kinds()))}"
    if Wanted.MOUNTS in wanted:
        yield f"{begin} -F -a {_quoted(f'(__{name}_mounts)')}"
    elif Wanted.FILES in wanted:
        yield f"{begin} -F"


def _words(option: Option) -> str:
    return " ".join(
        f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-s {word.removeprefix('-')}"
        for word in option.words
    )


def _value(option: Option) -> str:
    if not option.value:
        return ""
    if option.choices:
        return f" -x -a {_quoted(' '.join(option.choices))}"
    if option.wanted is Wanted.FOLDERS:
        return " -x -a '(__fish_complete_directories)'"
    return " -r -F" if option.wanted is Wanted.FILES else " -x"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
