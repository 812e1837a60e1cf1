"""A role begins in the process that was called, unless the words of that show a credential."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.control.cluster_token import create_token
from headrace.settings.environment import Environment

_ITSELF, _ANOTHER = "headrace.cli.main", "headrace.roles.processes.master"


@contextlib.contextmanager
def serving_master(tmp_path: Path, *words: str, **variables: str) -> Iterator[Path]:
    """The folder in /proc of a master that serves an empty folder, called with its file and these words."""
    (tmp_path / "data").mkdir()
    file = tmp_path / "master.json"
    settings = {"listen": "127.0.0.1:0", "state_directory": str(tmp_path / "state")}
    file.write_text(json.dumps({**settings, "origins": [{"origin": str(tmp_path / "data")}]}))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", _ITSELF, "master", "--config", str(file), *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**Environment.current().variables, **variables},
    )
    assert process.stderr is not None
    with process:
        try:
            said = next((line for line in process.stderr if "master: cluster" in line), None)
            assert said, "it ended before it served"
            yield Path("/proc") / str(process.pid)
        finally:
            process.terminate()
            process.stderr.read()
    assert process.returncode == 0


@pytest.mark.parametrize("words", [(), ("--name", "c")], ids=["its file alone", "more words"])
def test_a_role_begins_where_it_was_called(tmp_path: Path, words: tuple[str, ...]) -> None:
    with serving_master(tmp_path, *words) as seen:
        assert _ITSELF in (seen / "cmdline").read_text()
        most = next(line for line in (seen / "limits").read_text().splitlines() if "open files" in line)
        assert most.split()[3] == most.split()[4]


def test_a_role_that_was_given_a_credential_in_a_variable_begins_there_and_shows_it_no_more(
    tmp_path: Path,
) -> None:
    token = create_token(tmp_path / "token").get_secret_value()
    with serving_master(tmp_path, HEADRACE_TOKEN=token) as seen:
        assert token not in (seen / "environ").read_text()
        assert _ITSELF in (seen / "cmdline").read_text()


def test_a_role_whose_words_show_a_credential_becomes_a_process_without_it(tmp_path: Path) -> None:
    token = create_token(tmp_path / "token").get_secret_value()
    words = ("--state-directory", f"{tmp_path}/{token}")
    with serving_master(tmp_path, *words, HEADRACE_TOKEN=token) as seen:
        assert token not in (seen / "environ").read_text() + (seen / "cmdline").read_text()
        assert _ANOTHER in (seen / "cmdline").read_text()


def test_what_is_wrong_with_the_file_is_said_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "worker.yaml"
    file.write_text("caches: []\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", _ITSELF, "worker", "--config", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("error:")
    assert "caches" in done.stderr
    assert "Traceback" not in done.stderr
