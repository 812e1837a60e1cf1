"""Command lines of Arena in the form that is parsed here: flags before the command's name, and of old spellings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from headrace.cli.arena.shared_flags import IGNORED

_UPPER = re.compile(r"(?<=[a-z0-9])([A-Z]+)")
_SPELLINGS = {"--image-pull-secrets": "--image-pull-secret", "--tensor-board": "--tensorboard"}
_YES = frozenset(("true", "1", "t"))
_NO = frozenset(("false", "0", "f"))
_GLOBAL = {"-n": True, "--namespace": True, "--config": True, "--backend": True, **IGNORED}

Tell = Callable[[str], None]


def split_globals(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The flags that stand before the command's name, and the rest: Arena takes both orders."""
    number = 0
    while number < len(words):
        name, equals, _ = words[number].partition("=")
        if name not in _GLOBAL:
            break
        number += 1 if equals or not _GLOBAL[name] else 2
    return list(words[:number]), list(words[number:])


def modern(words: Sequence[str], flags: Mapping[str, bool], *, ends_at_first: bool, tell: Tell) -> list[str]:
    """The words of one command with flags as they are spelled today. `flags`: whether each takes a value.

    With `ends_at_first` what stands behind the first word that is no flag is another program's, and left as it is.
    """
    found: list[str] = []
    number = 0
    while number < len(words):
        word = words[number]
        if word == "--" or (ends_at_first and not _is_flag(word)):
            return [*found, *words[number:]]
        name, equals, value = _parts(word, flags, tell)
        takes_value = flags.get(name, IGNORED.get(name, False))
        behind = words[number + 1 : number + 2] if takes_value and not equals else []
        number += 1 + len(behind)
        if name not in IGNORED:
            found += [*_written(name, equals, value, flags), *behind]
    return found


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _parts(word: str, flags: Mapping[str, bool], tell: Tell) -> tuple[str, str, str]:
    """`-eA=b` and the like stay whole."""
    if not word.startswith("-"):
        return word, "", ""
    name, equals, value = word.partition("=")
    if not word.startswith("--"):
        # pflag reads -e=A=b as the value A=b.
        return (name, equals, value) if name in flags else (word, "", "")
    if name in flags or name in IGNORED:
        return name, equals, value
    today = _UPPER.sub(lambda match: f"-{match[1].lower()}", name)
    today = _SPELLINGS.get(today, today)
    if today != name and today in flags:
        tell(f"{name} is an old spelling: {today} is meant")
        return today, equals, value
    return name, equals, value


def _written(name: str, equals: str, value: str, flags: Mapping[str, bool]) -> list[str]:
    if not equals:
        return [name]
    if flags.get(name) is False and value.lower() in _YES | _NO:
        return [name] if value.lower() in _YES else []
    return [f"{name}={value}"] if name.startswith("--") else [name, value]
