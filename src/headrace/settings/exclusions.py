"""Patterns of names that nobody wants, in the words of `.gitignore` files: their form alone.

The engine decides what they match (`crates/engine/src/origin/exclusion.rs`) and refuses the same ones; here they are
checked where they are written, long before anything is listed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

_NOTHING = "names nothing; write \\# for a name that begins with #"


def patterns_of(text: str) -> tuple[str, ...]:
    """The patterns in a text, one a line, without comments and empty lines."""
    lines = text.splitlines()
    return tuple(line for line in lines if line.strip(" ") and not line.startswith("#"))


def check_pattern(pattern: str) -> str:
    """The pattern, if it means something. Raises `ValueError`."""
    if fault := pattern_fault(pattern):
        raise ValueError(
            f"{fault}; patterns are those of .gitignore files, such as *.tmp, _temporary/ or /a/**/b"
        )
    return pattern


def pattern_fault(pattern: str) -> str | None:
    """The reason why that is no pattern; `None` for one that is."""
    if pattern.startswith("#") or not pattern.lstrip("!").strip("/ "):
        return _NOTHING
    if any(character in pattern for character in "\n\r\0"):
        return "holds the end of a line"
    return _fault_of_glob(_glob_of(pattern))


def _glob_of(pattern: str) -> str:
    """What is left without the signs at both ends that are no part of a name."""
    glob = _without_blanks(pattern)
    is_escaped = glob.startswith(("\\!", "\\#"))
    glob = glob[1:] if is_escaped else glob.removeprefix("!").removeprefix("/")
    return glob.removesuffix("/").removesuffix("\\") if glob.endswith("/") else glob


def _without_blanks(pattern: str) -> str:
    """Without the blanks at the end, but for one behind a backslash."""
    kept = pattern.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return pattern[: len(kept) + backslashes % 2]


def _fault_of_glob(glob: str) -> str | None:
    at, braces = 0, 0
    while at < len(glob):
        character = glob[at]
        if character == "\\":
            if at + 1 == len(glob):
                return "ends with a backslash that stands for nothing"
            at += 1
        elif character == "[":
            end = _end_of_class(glob, at + 1)
            if isinstance(end, str):
                return end
            at = end
        elif character == "{":
            braces += 1
        elif character == "}":
            if braces == 0:
                return "closes a brace that was not opened"
            braces -= 1
        at += 1
    return "opens a brace that is not closed" if braces else None


def _end_of_class(glob: str, start: int) -> int | str:
    """Where the class that begins at `start` ends, or why it is none."""
    if glob[start : start + 1] in ("!", "^"):
        start += 1
    # A bracket that stands first is one of the class.
    end = glob.find("]", start + 1)
    if end < 0:
        return "opens a bracket that is not closed"
    members = glob[start:end]
    at = 0
    while at + 2 < len(members):
        if members[at + 1] == "-":
            if members[at] > members[at + 2]:
                return f"has a range that runs backwards: {members[at : at + 3]}"
            at += 2
        at += 1
    return end


Pattern = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(check_pattern)]
"""One pattern, checked."""

Patterns = Annotated[tuple[Pattern, ...], Field(max_length=256)]
"""The patterns of one origin."""
