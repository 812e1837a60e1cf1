"""A program in a pod: the words for kubectl, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import MissingFileError
from headrace.kubeflow.kubectl_exec import Place, attach, command_line

COMMAND = ["sh", "-c", "echo 'it is'; exit 7", "--flag"]


def test_the_programs_words_stay_as_they_are() -> None:
    place = Place("ml", "resnet-launcher-x", "mpi", "/my config", "lab")
    assert command_line(place, COMMAND, terminal=True) == [
        "exec",
        "--stdin",
        "--tty",
        "--kubeconfig=/my config",
        "--context=lab",
        "--namespace=ml",
        "--container=mpi",
        "resnet-launcher-x",
        "--",
        *COMMAND,
    ]
    assert command_line(Place("ml", "p"), ["ls"], terminal=False) == [
        *("exec", "--stdin", "--namespace=ml", "p", "--", "ls"),
    ]


def test_the_exit_code_is_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert attach(Place("ml", "p"), COMMAND) == 7


def test_without_kubectl_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingFileError, match="needs kubectl"):
        attach(Place("ml", "p"), ["ls"])
