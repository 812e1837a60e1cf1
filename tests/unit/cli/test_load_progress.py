"""What a command loads before it does anything: only what it needs, since people and scripts wait for it."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.api.kinds import KINDS
from headrace.cli.application import application, overview
from headrace.cli.verbs import VERBS

# What takes tens of milliseconds each; not one of them is needed to parse words or to print a line.
HEAVY = ("aiohttp", "asyncio", "kubernetes_asyncio", "prometheus_client", "pydantic", "rich", "yaml")
PROBE = """
import json, sys
from headrace.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


def loaded_by(folder: Path, *words: str) -> set[str]:
    """The modules that a command line has loaded when it ends, and the packages that they are in."""
    environment = {**os.environ, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], capture_output=True, text=True, env=environment, check=True
    )
    _, modules = json.loads(done.stderr.splitlines()[-1])
    return {*modules, *(module.partition(".")[0] for module in modules)}


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_the_help_of_the_command_loads_no_verb(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert not loaded_by(tmp_path, *words) & set(HEAVY)


@pytest.mark.parametrize(
    "words",
    [("status",), *((verb, "--help") for verb in ("status", "ls", "unmount", "refresh", "warm", "evict"))],
)
def test_what_is_about_mounts_loads_nothing_of_clusters_and_declared_objects(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    mine = {
        "aiohttp",
        "asyncio",
        "kubernetes_asyncio",
        "rich",
        "yaml",
        "headrace.api.kinds",
        "headrace.local.protocol.messages",
    }
    assert not loaded_by(tmp_path, *words) & set(mine)


@pytest.mark.parametrize("words", [("unmount", "/none"), ("unmount", "--help"), ("restart", "/none")])
def test_what_only_looks_a_mount_up_loads_no_models(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert not loaded_by(tmp_path, *words) & set(HEAVY)


@pytest.mark.parametrize("words", [("get", "dataset"), ("get", "--help"), ("describe", "--help")])
def test_what_shows_declared_objects_loads_no_model_before_there_is_one(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    models = {f"headrace.api.{kind.module}" for kind in KINDS.values()}
    assert loaded_by(tmp_path, *words).isdisjoint(
        {"aiohttp", "asyncio", "kubernetes_asyncio", "rich", *models}
    )


@pytest.mark.parametrize("name", list(VERBS))
def test_the_help_says_of_a_verb_what_the_verb_says_of_itself(name: str) -> None:
    verb = VERBS[name]
    function = getattr(importlib.import_module(f"headrace.cli.{verb.module}"), verb.function)
    assert verb.summary == (inspect.getdoc(function) or "").splitlines()[0]


def test_the_help_is_the_same_with_and_without_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for made in (overview(), application()):
        made(args=["--help"], prog_name="headrace", standalone_mode=False)
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
