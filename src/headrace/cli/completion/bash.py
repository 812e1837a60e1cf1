"""The script for bash, which needs nothing else: neither Python at each key nor the package bash-completion."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from headrace.cli.completion import tables
from headrace.cli.completion.commands import Command, Option, Wanted

_HEAD = r"""# Completion of {name} for bash, written by `headrace completion bash`.

_{name}_offer() {{
    local word
    while IFS= read -r word; do
        [[ $word == "$current"* ]] && COMPREPLY+=("$word")
    done
}}

_{name}_mounts() {{
    local source folder kind rest
    while read -r source folder kind rest; do
        [[ $kind == {mount_kind} ]] && printf '%b\n' "$folder"
    done </proc/self/mounts
}}

_{name}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} at={name} word
    # bash takes --option=value for three words.
    [[ $previous == = ]] && previous=${{COMP_WORDS[COMP_CWORD - 2]}}
    [[ $current == = ]] && current=
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$at $word" in
            {paths}) at+=" $word" ;;
        esac
    done
    COMPREPLY=()
    case "$at $previous" in
{values}
    esac
    case $at in
{commands}
    esac
}}

complete -F _{name} {name}
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
    (name,) = program.path
    for place, option in tables.values(program):
        yield f"        {shlex.quote(place)}) {_value(name, option)}return ;;"


def _value(name: str, option: Option) -> str:
    if option.choices:
        return f"{_offer(name, option.choices)}; "
    return {Wanted.FILES: "compopt -o default; ", Wanted.FOLDERS: "compopt -o dirnames; "}.get(
        option.wanted, ""
    )


def _command(name: str, command: Command) -> str:
    steps = [f"[[ $current == -* ]] && {_offer(name, tables.options(command))} && return"]
    if verbs := tables.verbs(command):
        steps.append(_offer(name, verbs))
    wanted = tables.wanted(command)
    if Wanted.KINDS in wanted:
        steps.append(_offer(name, tables.kinds()))
    if Wanted.MOUNTS in wanted:
        steps += ["compopt -o default -o filenames", f"_{name}_offer < <(_{name}_mounts)"]
    elif Wanted.FILES in wanted:
        steps.append("compopt -o default")
    body = "\n".join(f"            {step}" for step in steps)
    return f"        {shlex.quote(' '.join(command.path))})\n{body}\n            ;;"


def _offer(name: str, words: Iterable[str]) -> str:
    return f"_{name}_offer < <(printf '%s\\n' {' '.join(map(shlex.quote, words))})"
