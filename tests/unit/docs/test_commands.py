"""Commands that pages print exist, with their flags; so do the targets of make that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from headrace.cli.application import application
from headrace.cli.arena.main import application as jobs_application

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").glob("*.md"))
# Fenced and indented blocks, and what stands in backticks.
CODE = re.compile(r"^```[^\n]*\n(.*?)^```|((?:^ {4}\S[^\n]*\n)+)|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
# At the beginning of a line, behind a prompt, or behind what ends another command.
COMMAND = re.compile(r"(?:^|\$ +|[;(&|] ?)(headrace|arena) ([a-z][a-z-]*(?: [^\n#;|`]*)?)", re.MULTILINE)
FLAG = re.compile(r"(?<=\s)(--[a-z][a-z-]*)")
TARGET = re.compile(r"(?:^|\$ )make ([a-z][a-z-]*)", re.MULTILINE)


def code(page: Path) -> Iterator[str]:
    """The blocks and words of code of a page; a line that goes on in the next is one."""
    for found in CODE.finditer(page.read_text(encoding="utf-8")):
        yield re.sub(r"\\\n\s*", " ", "".join(part or "" for part in found.groups()))


@cache
def program(name: str) -> Any:
    return typer.main.get_command(application() if name == "headrace" else jobs_application())


def fault(name: str, rest: str) -> str | None:
    """What is wrong with a command. Behind `--` stands another program's."""
    words, command = rest.split(), program(name)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if words and not words[0].startswith("-") and hasattr(command, "commands"):
        return f"{name} {rest}: there is no {words[0]}"
    # Of a group that stands alone, whatever one of its commands knows.
    known = {"--help"}
    for each in getattr(command, "commands", {"": command}).values():
        known |= {flag for param in each.params for flag in (*param.opts, *param.secondary_opts)}
    flags = FLAG.findall(f" {rest.partition(' -- ')[0]}")
    return next((f"{name} {rest}: there is no {flag}" for flag in flags if flag not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_printed_commands_exist_with_their_flags(page: Path) -> None:
    found = [fault(*command) for text in code(page) for command in COMMAND.findall(text)]
    assert [each for each in found if each] == []


def test_a_command_that_is_not_there_is_found() -> None:
    assert fault("headrace", "mount s3://b /m --cache /c:1Gi") is None
    assert fault("headrace", "run --dataset a:/b -- python --data") is None
    assert (
        fault("headrace", "mount s3://b /m --cach /c")
        == "headrace mount s3://b /m --cach /c: there is no --cach"
    )
    assert fault("arena", "submit horovod") == "arena submit horovod: there is no horovod"


def test_targets_of_make_that_pages_name_are_there() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {(page.name, each) for page in PAGES for text in code(page) for each in TARGET.findall(text)}
    assert len(named) > 10
    assert {(page, each) for page, each in named if each not in targets} == set()
