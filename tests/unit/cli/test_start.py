"""What a command loads before it answers: counted in modules, the same on every machine, and never in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from headrace.cli import overview
from headrace.cli.application import application
from headrace.cli.main import main
from headrace.cli.verbs import VERBS

PROBE = """
import json, sys
from headrace.cli.main import main
sys.argv[1:] = json.loads(sys.argv[1])
code = main()
sys.stderr.write(json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""
# Of the program's own modules `traceback`, `subprocess` and `logging` stand for what only failures and other programs
# need; `typer` and `pydantic` alone take longer to load than a command may take.
NEVER = (
    "typer",
    "pydantic",
    "rich",
    "traceback",
    "subprocess",
    "logging",
    "yaml",
    "aiohttp",
    "prometheus_client",
    "headrace._native",
)


@pytest.mark.parametrize(
    ("words", "heavy", "said"),
    [
        (["--help"], ("dataclasses", "inspect", "pathlib"), "Usage: headrace "),
        (["-h"], ("dataclasses", "inspect", "pathlib"), "Usage: headrace "),
        (["status"], (), ""),
        (["version"], ("dataclasses",), "headrace 0"),
    ],
    ids=" ".join,
)
def test_commands_that_need_little_load_little(words, heavy, said, tmp_path: Path) -> None:
    folders = {f"HEADRACE_{name}_DIR": str(tmp_path / name) for name in ("RUNTIME", "STATE", "CACHE")}
    command = [sys.executable, "-c", PROBE, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **folders})
    talk, _, found = done.stderr.rpartition("{")
    told = json.loads("{" + found)
    assert told["code"] == 0, talk
    assert done.stdout.startswith(said)
    # The version is also that of the engine, and of a checkout git is asked for its commit.
    unwanted = {*NEVER, *heavy} - ({"headrace._native", "subprocess"} if words == ["version"] else set())
    assert unwanted & set(told["modules"]) == set()


@pytest.mark.parametrize("columns", [20, 80, 300])
def test_the_overview_tells_of_every_verb_within_its_width(columns: int) -> None:
    lines = overview.text(columns).splitlines()
    assert all(len(line) <= max(40, min(columns - 2, overview.LONGEST_LINE)) for line in lines[4:-1])
    words = " ".join(" ".join(lines).split())
    assert all(f" {name} {verb.summary}" in words for name, verb in VERBS.items())


def test_the_overview_tells_of_the_options_that_are_read() -> None:
    group = typer.main.get_command(application())
    read = {", ".join(option.opts): option.help for option in group.params if option.name != "help"}
    assert read == {word: text for word, text in overview.OPTIONS.items() if word != "-h, --help"}


@pytest.mark.parametrize("words", [[], ["job", "top"]], ids=" ".join)
def test_a_command_that_lacks_its_verb_shows_its_help(words, capsys) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out + err).startswith("Usage: ")
    assert "error: " not in out + err
