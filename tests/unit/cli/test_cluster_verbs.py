"""Commands that ask a master, against a real one around the double of its engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from masters import TOKEN, fetch, master_spec, role_process, wait_for

from headrace.cli.load_progress import tell
from headrace.cli.main import main
from headrace.control.messages import LoadFault, LoadOrder, LoadReport, LoadState
from headrace.exits import ExitCode
from headrace.testing.processes import free_port


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A master that has a snapshot, and its token in the environment."""
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN.get_secret_value())
    port = free_port()
    with role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"):
        found = f"http://127.0.0.1:{port}"
        wait_for("a snapshot", lambda: json.loads(fetch(f"{found}/v1/status"))["snapshot"])
        yield found


def test_refresh_of_a_cluster_takes_a_new_snapshot(
    url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = json.loads(fetch(f"{url}/v1/status"))["snapshot"]["version"]
    assert main(["refresh", "--cluster", url]) == 0
    assert capfd.readouterr().err.startswith(f"refreshed {url}: ")
    monkeypatch.setenv("HEADRACE_MASTER", url)
    assert main(["refresh", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["version"] == before + 2


def test_status_of_a_cluster_says_what_is_slow_to_list(
    url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m" / "unordered").touch()
    assert main(["refresh", "--cluster", url]) == 0
    assert main(["status", "--cluster", url]) == 0
    assert "  canonical:train: listed with one request at a time\n" in capfd.readouterr().out


def test_status_of_a_cluster_without_a_token_has_numbers_and_says_where_names_are(
    url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN.get_secret_value())
    monkeypatch.delenv("HEADRACE_TOKEN")
    assert main(["status", "--cluster", url]) == 0
    told = capfd.readouterr()
    assert told.out.startswith("-  (") and "snapshot  version" in told.out and "train" not in told.out
    assert "give --token-file" in told.err
    assert main(["status", "--cluster", url, "--token-file", str(token)]) == 0
    told = capfd.readouterr()
    assert told.out.startswith("shop  (") and "train" in told.out and not told.err
    assert main(["status", "--token-file", str(token)]) == ExitCode.CONFIG
    assert "name its master by --cluster" in capfd.readouterr().err


def test_refresh_needs_to_know_of_what(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh"]) == ExitCode.USAGE
    assert "missing argument 'TARGET'; or give a --cluster" in capfd.readouterr().err
    assert main(["refresh", "/mnt/x", "--cluster", "http://127.0.0.1:1"]) == ExitCode.CONFIG
    assert "different things to refresh" in capfd.readouterr().err


def test_a_fault_of_a_load_is_told_with_its_path_when_that_is_known(
    capfd: pytest.CaptureFixture[str],
) -> None:
    faults = (LoadFault(message="7.bin: it is gone"), LoadFault(path="train/8.bin", message="it is gone"))
    tell(LoadReport(id="1", order=LoadOrder(), state=LoadState.DONE, errors=faults), json=False)
    told = capfd.readouterr().err.splitlines()
    assert told[:2] == ["error: 7.bin: it is gone", "error: train/8.bin: it is gone"]
