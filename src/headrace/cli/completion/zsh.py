"""The script for zsh: to be sourced after `compinit`, or kept as `_headrace` in a folder of `$fpath`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from headrace.cli.completion import tables
from headrace.cli.completion.commands import Command, Option, Wanted

_HEAD = r"""#compdef {name}
# Completion of {name} for zsh, written by `headrace completion zsh`.

_{name}_mounts() {{
    local source folder kind rest
    local -a folders
    while read -r source folder kind rest; do
        [[ $kind == {mount_kind} ]] && folders+=("$(printf '%b' "$folder")")
    done </proc/self/mounts
    compadd -f -a folders
    _files
}}

_{name}() {{
    local at={name} word previous=$words[CURRENT-1]
    local -a offered
    if [[ $words[CURRENT] == --*=* ]]; then
        previous=${{words[CURRENT]%%=*}}
        compset -P '*='
    fi
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$at $word" in
            ({paths}) at+=" $word" ;;
        esac
    done
    case "$at $previous" in
{values}
    esac
    case $at in
{commands}
    esac
}}

if [[ $funcstack[1] == _{name} ]]; then
    _{name} "$@"
else
    compdef _{name} {name}
fi
"""


def script(program: Command) -> str:
    """The whole script."""
    (name,) = program.path
    return _HEAD.format(
        name=name,
        mount_kind=tables.MOUNT_KIND,
        paths=" | ".join(map(shlex.quote, tables.paths(program))),
        values="\n".join(_values(program)),
        commands="\n".join(_command(name, command) for command in program.walk()),
    )


def _values(program: Command) -> Iterator[str]:
    for place, option in tables.values(program):
        yield f"        ({shlex.quote(place)}) {_value(option)}return ;;"


def _value(option: Option) -> str:
    if option.choices:
        return f"compadd -- {' '.join(map(shlex.quote, option.choices))}; "
    return {Wanted.FILES: "_files; ", Wanted.FOLDERS: "_files -/; "}.get(option.wanted, "")


def _command(name: str, command: Command) -> str:
    options = f"offered=({_described(tables.options(command))}); _describe -o option offered"
    steps = [f"if [[ $words[CURRENT] == -* ]]; then {options}; return; fi"]
    if verbs := tables.verbs(command):
        steps.append(f"offered=({_described(verbs)}); _describe command offered")
    wanted = tables.wanted(command)
    if Wanted.KINDS in wanted:
        steps.append(f"compadd -- {' '.join(tables.kinds())}")
    if Wanted.MOUNTS in wanted:
        steps.append(f"_{name}_mounts")
    elif Wanted.FILES in wanted:
        steps.append("_files")
    body = "\n".join(f"            {step}" for step in steps)
    return f"        ({shlex.quote(' '.join(command.path))})\n{body}\n            ;;"


def _described(meanings: Mapping[str, str]) -> str:
    escaped = (f"{word.replace(':', chr(92) + ':')}:{meaning}" for word, meaning in meanings.items())
    return " ".join(map(shlex.quote, escaped))
