"""Programs that read with the SDK through a mount's process that was killed, or stands still, and Ctrl-C meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.processes import freeze

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

# Reads a file that comes inline and one that is lent whole. After a word it reads them again, several times at once,
# and tells what went wrong; after another it writes what it reads.
PATIENT = """
import json, pathlib, sys
from concurrent.futures import ThreadPoolExecutor
from headrace.engine.handles import Engine
from headrace.errors import HeadraceError
state, names = pathlib.Path(sys.argv[1]), [name.encode() for name in sys.argv[2:]]

def read(name):
    buffer = bytearray(engine.stat(name).size)
    assert engine.read_into(name, 0, buffer) == len(buffer)
    return buffer

def failure(wait):
    try:
        wait()
    except HeadraceError as error:
        return [type(error).__name__, str(error), error.hint]
    return ["", "nothing went wrong", ""]

with Engine.attach(state) as engine, ThreadPoolExecutor(9) as threads:
    for name in names:
        read(name)
    print("ready", flush=True)
    sys.stdin.readline()
    waits = [lambda name=name: read(name) for name in names * 4] + [lambda: Engine.attach(state)]
    print(json.dumps(list(threads.map(failure, waits))), flush=True)
    sys.stdin.readline()
    for name in names:
        sys.stdout.buffer.write(read(name))
"""

# Less than the time for which a next process is waited for (60 s), or one that stands still (30 s).
HEARD_WITHIN_S = 20
# After which a process that stands still is told of.
STANDSTILL_S = 30


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return shell_without_server(tmp_path / "home")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return fill(tmp_path / "source")


@contextlib.contextmanager
def reader(
    shell: Shell, mountpoint: Path, text: str = READER, names: tuple[str, str] = ("part-00", "part-01")
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has read the first file, and reads the second (both of them: `PATIENT`) once it gets a line."""
    state = registered(shell, mountpoint).state_directory
    program = subprocess.Popen(
        [sys.executable, "-c", text, state, *names],
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


def line_of(program: subprocess.Popen[bytes]) -> bytes:
    """What the program says next; fails when it says nothing for ten times as long as it may wait."""
    assert program.stdout is not None
    ready, _, _ = select.select([program.stdout], [], [], 10 * STANDSTILL_S)
    assert ready, "it waits in vain for a process that stands still"
    return program.stdout.readline()


def expect(program: subprocess.Popen[bytes], line: bytes) -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == line


def begin_to_wait(program: subprocess.Popen[bytes]) -> None:
    """Lets the program read, and returns once it has gone to sleep several times since."""
    before = sleeps_of(program.pid)
    tell(program)
    expect(program, b"reading\n")
    wait_until(
        lambda: sleeps_of(program.pid) >= before + 4, lambda: f"{sleeps_of(program.pid)}, before {before}"
    )


def tell(program: subprocess.Popen[bytes]) -> None:
    assert program.stdin is not None
    program.stdin.write(b"\n")
    program.stdin.flush()


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
    freeze(pid)
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


def test_a_process_that_stands_still_is_told_of_and_read_through_again_once_it_goes_on(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    """Takes the 30 seconds that `docs/semantics.md` promises."""
    names = ("part-01", "part-11")
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        mount = registered(shell, mountpoint)
        with reader(shell, mountpoint, PATIENT, names) as program:
            with stopped(mount.pid):
                tell(program)
                failures = json.loads(line_of(program))
            told = f"the process {mount.pid} that owns the cache at {mount.state_directory} stands still"
            for kind, text, hint in failures:
                assert kind == "DeadlineError", text
                assert text.startswith(told), text
                assert f"`kill -CONT {mount.pid}`" in hint and f"`kill -KILL {mount.pid}`" in hint
            assert len(failures) == 9
            said, failure = program.communicate(b"\n", timeout=DEADLINE_S)
            assert program.returncode == 0, failure
            assert said == b"".join((source / name).read_bytes() for name in names)
        assert registered(shell, mountpoint).pid == mount.pid


def test_readers_go_on_with_the_next_process_when_one_that_stands_still_is_killed(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        mount = registered(shell, mountpoint)
        with reader(shell, mountpoint) as program:
            freeze(mount.pid)
            begin_to_wait(program)
            os.kill(mount.pid, signal.SIGKILL)
            said, failure = program.communicate(timeout=DEADLINE_S)
            assert (program.returncode, said) == (0, (source / "part-01").read_bytes()), failure
        # It answers a moment before it is registered.
        wait_until(lambda: registered(shell, mountpoint).pid != mount.pid, lambda: mount)
