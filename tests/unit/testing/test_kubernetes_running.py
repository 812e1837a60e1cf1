"""Programs of a cluster that are started, and what is said of one that does not start."""

from __future__ import annotations

import secrets
import signal
from pathlib import Path

import pytest

from headrace.testing.kubernetes import running


def test_a_program_that_does_not_start_is_told_with_what_stands_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = f"test-{secrets.token_hex(4)}"
    monkeypatch.setattr(running, "_WAIT_S", 0.5)
    command = ("sh", "-c", "sleep 600 && exec etcd")
    try:
        with pytest.raises(
            TimeoutError, match=r"etcd did not start.* of storage there is .*sleep \(\d+, state S in "
        ):
            running.start(
                ["etcd"],
                instance=instance,
                role="storage",
                log_path=tmp_path / "log",
                prefix=command,
            )
    finally:
        monkeypatch.undo()
        running.kill_all(instance)


def test_a_program_that_was_killed_starts_again_beside_what_it_had_started(tmp_path: Path) -> None:
    instance = f"test-{secrets.token_hex(4)}"
    start = lambda: running.start(  # noqa: E731
        ["sh", "-c", "sleep 600 & wait"], instance=instance, role="storage", log_path=tmp_path / "log"
    )
    program = running.resolved_name("sh")
    try:
        start()
        running.kill_program(instance, "storage", program, signal.SIGKILL)
        assert not running.is_running(instance, "storage", program)
        start()
        assert running.is_running(instance, "storage", program)
    finally:
        running.kill_all(instance)
