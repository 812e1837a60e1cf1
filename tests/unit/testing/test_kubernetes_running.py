"""Programs of a cluster that are started, and what is said of one that does not start."""

from __future__ import annotations

import secrets
import signal
import socket
from pathlib import Path

import pytest

from headrace.testing.cluster.cluster_bed import wait_until
from headrace.testing.kubernetes import running
from headrace.testing.processes import free_port


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


LISTENING = """
import mmap, socket, sys, time
# So much that giving it back takes the kernel a while: it does so before it closes sockets.
kept = mmap.mmap(-1, 512 << 20)
kept.write(bytes(len(kept)))
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    print("listening", flush=True)
    time.sleep(600)
"""


def test_a_killed_program_is_gone_with_all_it_had_open(tmp_path: Path) -> None:
    instance, port, log = f"test-{secrets.token_hex(4)}", free_port(), tmp_path / "log"
    running.start(["python3", "-c", LISTENING, str(port)], instance=instance, role="storage", log_path=log)
    try:
        wait_until(lambda: "listening" in log.read_text(), "a program that listens", timeout_s=60)
        running.kill_program(instance, "storage", running.resolved_name("python3"))
        socket.create_server(("127.0.0.1", port)).close()
    finally:
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
