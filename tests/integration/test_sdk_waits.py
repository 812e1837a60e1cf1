"""Programs that read with the SDK through a mount's process that was killed, or stands still, and Ctrl-C meanwhile."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import DEADLINE_S, Shell
from .survival import fill, registered, shell_without_server, wait_until, wait_until_ended

# Reads one file, waits for a word, and reads another that nobody has yet.
READER = """
import pathlib, sys
from headrace.engine.handles import Engine
state, first, second = pathlib.Path(sys.argv[1]), *(name.encode() for name in sys.argv[2:])
with Engine.attach(state) as engine:
    buffer = bytearray(engine.stat(first).size)
    engine.read_into(first, 0, buffer)
    print("ready", flush=True)
    sys.stdin.readline()
    print("reading", flush=True)
    buffer = bytearray(engine.stat(second).size)
    engine.read_into(second, 0, buffer)
    sys.stdout.buffer.write(buffer)
"""

# Less than the time for which a next process is waited for (60 s), or one that stands still (30 s).
HEARD_WITHIN_S = 20


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return shell_without_server(tmp_path / "home")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return fill(tmp_path / "source")


@contextlib.contextmanager
def reader(shell: Shell, mountpoint: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has read `part-00`, and reads `part-01` once it gets a line."""
    state = registered(shell, mountpoint).state_directory
    program = subprocess.Popen(
        [sys.executable, "-c", READER, state, "part-00", "part-01"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        expect(program, b"ready\n")
        yield program
    finally:
        program.kill()
        program.communicate()


def expect(program: subprocess.Popen[bytes], line: bytes) -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == line


def begin_to_wait(program: subprocess.Popen[bytes]) -> None:
    """Lets the program read, and returns once it has gone to sleep several times since."""
    assert program.stdin is not None
    before = sleeps_of(program.pid)
    program.stdin.write(b"\n")
    program.stdin.flush()
    expect(program, b"reading\n")
    wait_until(
        lambda: sleeps_of(program.pid) >= before + 4, lambda: f"{sleeps_of(program.pid)}, before {before}"
    )


def sleeps_of(pid: int) -> int:
    (count,) = re.findall(
        r"^voluntary_ctxt_switches:\s*(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    return int(count)


def assert_broken_off(program: subprocess.Popen[bytes]) -> None:
    program.send_signal(signal.SIGINT)
    said, failure = program.communicate(timeout=HEARD_WITHIN_S)
    assert said == b""
    assert failure.rstrip().endswith(b"KeyboardInterrupt"), failure


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_ctrl_c_is_heard_while_the_next_process_is_waited_for(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        mount = registered(shell, mountpoint)
        with reader(shell, mountpoint) as program, reader(shell, mountpoint) as patient:
            assert mount.supervisor_pid is not None
            with stopped(mount.supervisor_pid):
                os.kill(mount.pid, signal.SIGKILL)
                wait_until_ended(mount.pid)
                begin_to_wait(program)
                assert_broken_off(program)
                begin_to_wait(patient)
            # Who goes on waiting gets what it asked for.
            said, failure = patient.communicate(timeout=DEADLINE_S)
            assert (patient.returncode, said) == (0, (source / "part-01").read_bytes()), failure


def test_ctrl_c_is_heard_while_a_process_stands_still_and_readers_go_on_with_it(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        mount = registered(shell, mountpoint)
        with reader(shell, mountpoint) as program, reader(shell, mountpoint) as patient:
            with stopped(mount.pid):
                begin_to_wait(program)
                assert_broken_off(program)
                begin_to_wait(patient)
            said, failure = patient.communicate(timeout=DEADLINE_S)
            assert (patient.returncode, said) == (0, (source / "part-01").read_bytes()), failure
        assert registered(shell, mountpoint).pid == mount.pid
