"""What tests of survival share: programs that read without end and compare, and the processes of a mount to kill."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.engine.handles import Engine
from headrace.engine.registry_entry import Entry
from headrace.errors import HeadraceError
from headrace.process.stat import stat_of

from .harness import DEADLINE_S, Shell

MODES = ("elide", "classic", "passthrough")


def fill(folder: Path) -> Path:
    """Twelve files for the readers, 17 MB."""
    folder.mkdir()
    for number in range(12):
        data = random.Random(number).randbytes(900_000 + number * 100_000)
        (folder / f"part-{number:02}").write_bytes(data)
    return folder


def shell_without_server(home: Path) -> Shell:
    """For mounts whose origin is a folder."""
    (home / "run").mkdir(parents=True, mode=0o700)
    return Shell(home, {"HEADRACE_RUNTIME_DIR": str(home / "run")})


# Reads in every way that programs do, past the page cache where it can, and ends with a traceback at the first failure
# or wrong byte. After each round it says in a file how many there were, and pauses.
READER = """
import mmap, os, pathlib, random, sys, time
mountpoint, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
stop, pause_s, seed = sys.argv[3], float(sys.argv[4]), sys.argv[5]
progress = os.open(f"{stop}-{seed}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
names = sorted(path.name for path in source.iterdir())
content = {name: (source / name).read_bytes() for name in names}
chance = random.Random(seed)
held = {name: os.open(mountpoint / name, os.O_RDONLY) for name in names[::3]}

def pieces(descriptor, expected):
    for _ in range(10):
        offset, length = chance.randrange(len(expected)), chance.randrange(1, 200_000)
        assert os.pread(descriptor, length, offset) == expected[offset : offset + length], "wrong bytes"

def whole(descriptor, expected):
    with os.fdopen(os.dup(descriptor), "rb", 0) as file:
        file.seek(0)
        assert file.read() == expected, "wrong bytes"

def mapped(descriptor, expected):
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as memory:
        memory.madvise(mmap.MADV_RANDOM)
        for offset in range(0, len(expected), 65_536):
            assert memory[offset : offset + 100] == expected[offset : offset + 100], "wrong bytes"

rounds = 0
print("ready", flush=True)
while rounds == 0 or not os.path.exists(stop):
    name = chance.choice(names)
    kept = name in held and chance.random() < 0.5
    descriptor = held[name] if kept else os.open(mountpoint / name, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    chance.choice((pieces, whole, mapped))(descriptor, content[name])
    assert os.stat(mountpoint / name).st_size == len(content[name])
    if chance.random() < 0.05:
        assert sorted(os.listdir(mountpoint)) == names
    if not kept:
        os.close(descriptor)
    rounds += 1
    os.pwrite(progress, b"%20d" % rounds, 0)
    time.sleep(pause_s)
print(rounds)
"""


@dataclass(frozen=True)
class Readers:
    """Programs that read without end."""

    running: list[subprocess.Popen[str]]
    progress: list[Path]

    def rounds(self) -> list[int]:
        """How many files each of them has read so far."""
        return [int(file.read_bytes() or 0) for file in self.progress]

    def wait_for_a_round(self) -> None:
        """Returns once each of them has read a file to the end that it had not when this was called."""
        before = self.rounds()

        def have_read() -> bool:
            assert all(reader.poll() is None for reader in self.running), "a reader has ended"
            return all(now > then for now, then in zip(self.rounds(), before, strict=True))

        wait_until(have_read, lambda: f"rounds of the readers: {before}, then {self.rounds()}")


def wait_until(is_so: Callable[[], object], seen: Callable[[], object]) -> None:
    """Returns once it is so; else says what is seen instead."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, f"in vain; seen: {seen()}"
        time.sleep(0.02)


@contextlib.contextmanager
def readers(mountpoint: Path, source: Path, count: int = 8, *, pause_s: float = 0.02) -> Iterator[Readers]:
    """Programs that read while the block runs; afterwards each must have read something, and nothing wrong.

    Between two files they leave the processors to what is being shown, unless that is to be shown of a busy machine.
    """
    stop = source.parent / "stop"
    stop.unlink(missing_ok=True)
    command = [sys.executable, "-c", READER, str(mountpoint), str(source), str(stop), str(pause_s)]
    running = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for seed in range(count)
    ]
    try:
        for reader in running:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n", reader.communicate(timeout=DEADLINE_S)[1]
        yield Readers(running, [Path(f"{stop}-{seed}") for seed in range(count)])
    finally:
        stop.touch()
        ends = [_end(reader) for reader in running]
    for code, said, failure in ends:
        assert code == 0, failure
        assert int(said) > 0


def _end(reader: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        said, failure = reader.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        reader.kill()
        said, failure = reader.communicate()
        failure = f"it hung\n{failure}"
    return reader.returncode, said, failure


def registered(shell: Shell, mountpoint: Path) -> Entry:
    """What the registry says of a mount. A command would take longer to start than a process to come back."""
    return shell.registry().get(str(mountpoint))


def entry_of(shell: Shell, mountpoint: Path) -> dict:
    """As `headrace status --json` tells of a mount; `engine` is in it when its process answers."""
    entry = registered(shell, mountpoint)
    told = entry.as_dict()
    if not entry.is_restarting:
        with contextlib.suppress(HeadraceError), Engine.attach(Path(entry.state_directory)) as engine:
            told["engine"] = engine.status().model_dump(mode="json")
    return told


def kill_process(shell: Shell, mountpoint: Path) -> int:
    """Kills the mount process with SIGKILL; the number of restarts before."""
    entry = registered(shell, mountpoint)
    os.kill(entry.pid, signal.SIGKILL)
    return entry.restarts


def wait_until_restarted(shell: Shell, mountpoint: Path, *, beyond: int) -> dict:
    """The mount's entry once more than `beyond` processes have replaced the first one."""
    found: list[dict] = []

    def is_back() -> bool:
        found.append(entry_of(shell, mountpoint))
        return found[-1]["restarts"] > beyond and "engine" in found[-1]

    wait_until(is_back, lambda: found[-1])
    return found[-1]


def is_running(pid: int) -> bool:
    """True until the process has ended."""
    stat = stat_of(pid)
    return stat is not None and not stat.has_ended


def wait_until_ended(*pids: int) -> None:
    """Returns when none of the processes runs any more."""
    wait_until(
        lambda: not any(map(is_running, pids)),
        lambda: f"{[pid for pid in pids if is_running(pid)]} still run",
    )


# Stops threads one by one, which no signal can, and holds them until its input ends.
STOPPER = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
SEIZE, INTERRUPT = 0x4206, 0x4207
stopped = 0
for thread in map(int, sys.argv[1:]):
    if any(libc.ptrace(request, thread, None, None) != 0 for request in (SEIZE, INTERRUPT)):
        if ctypes.get_errno() != errno.ESRCH:
            sys.exit(os.strerror(ctypes.get_errno()))
    elif os.WIFSTOPPED(os.waitpid(thread, 0x40000000)[1]):
        stopped += 1
if not stopped:
    sys.exit("all of them ended")
print("stopped", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def stopped_threads(pid: int, prefix: str) -> Iterator[None]:
    """While the block runs, the threads of a process whose names begin with `prefix` stand still."""
    threads = [str(thread) for thread in threads_of(pid) if _name(pid, thread).startswith(prefix)]
    assert threads, f"process {pid} has no threads {prefix}"
    stopper = subprocess.Popen(
        [sys.executable, "-c", STOPPER, *threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert stopper.stdout is not None
        if stopper.stdout.readline() != "stopped\n":
            pytest.skip("threads of other processes may not be stopped here")
        yield
    finally:
        stopper.kill()
        stopper.communicate()


def wait_until_held(pid: int) -> None:
    """Returns once the kernel holds a thread of the process, whatever signal it gets."""
    wait_until(
        lambda: any(sleeps_on(pid, thread, b"D") for thread in threads_of(pid)),
        lambda: f"nothing holds process {pid}: {[_state(pid, thread) for thread in threads_of(pid)]}",
    )


def sleeps_on(pid: int, thread: int, states: bytes) -> bool:
    """Whether a thread is in one of these states, and has not been awake for a while. Who waits for a disk is soon."""
    before = _switches(pid, thread)
    for _ in range(10):
        if _state(pid, thread) not in states or _switches(pid, thread) != before:
            return False
        time.sleep(0.02)
    return True


def threads_of(pid: int) -> list[int]:
    """The threads of a process at this moment, none of a process that is gone: any of them may end at any time."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _name(pid: int, thread: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text()
    except OSError:
        return ""


def _state(pid: int, thread: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/task/{thread}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return b"gone"


def _switches(pid: int, thread: int) -> list[str]:
    """How often a thread was given the processor, and has given it away."""
    try:
        lines = Path(f"/proc/{pid}/task/{thread}/status").read_text().splitlines()
    except OSError:
        return []
    return [line for line in lines if "voluntary_ctxt_switches" in line]
