"""The mount survives its process: whatever happens to that, programs that read only wait."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie
from headrace.testing.processes import freeze

from .harness import DEADLINE_S, HEADRACE, Shell, mode_words, tree_of
from .servers import Bucket
from .survival import (
    MODES,
    entry_of,
    fill,
    is_running,
    kill_process,
    readers,
    registered,
    shell_without_server,
    sleeps_on,
    stopped_threads,
    threads_of,
    wait_until,
    wait_until_ended,
    wait_until_held,
    wait_until_restarted,
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return fill(tmp_path / "source")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Without a server: the origin is a folder."""
    return shell_without_server(tmp_path / "home")


def is_answered(shell: Shell, mountpoint: Path) -> bool:
    try:
        return "engine" in entry_of(shell, mountpoint)
    except HeadraceError:
        return False


def log_of(shell: Shell, mountpoint: Path) -> str:
    return Path(registered(shell, mountpoint).log_file or "").read_text()


@pytest.mark.parametrize("mode", (*MODES, "view"))
def test_files_that_are_open_stay_readable_when_the_process_is_killed(
    shell: Shell, source: Path, tmp_path: Path, mode: str
) -> None:
    expected = tree_of(source)
    with shell.mounted(
        str(source), tmp_path / "mnt", *mode_words(mode), cache=tmp_path / "cache"
    ) as mountpoint:
        shell.must("warm", mountpoint)
        descriptors = {name: os.open(mountpoint / name, os.O_RDONLY) for name in expected}
        memory = mmap.mmap(descriptors["part-00"], 0, prot=mmap.PROT_READ)
        for beyond in range(2):
            assert kill_process(shell, mountpoint) == beyond
            for name, descriptor in descriptors.items():
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                assert os.pread(descriptor, 1 << 30, 0) == expected[name]
            assert memory[:] == expected["part-00"]
            assert tree_of(mountpoint) == expected
            entry = wait_until_restarted(shell, mountpoint, beyond=beyond)
            assert entry["last_restart"] == "was ended by SIGKILL"
            assert entry["pid"] == entry["engine"]["pid"]
            assert entry["mode"] == mode
        memory.close()
        for descriptor in descriptors.values():
            os.close(descriptor)
        assert "headrace_mount_restarts_total 2" in shell.must("metrics", mountpoint).stdout
        processes = (entry["pid"], entry["supervisor_pid"])
        shell.must("unmount", mountpoint)
        assert not any(map(is_running, processes)), "unmounting ends both"


# Twice, so that the second process has inherited, too. The other modes are killed twice above; all three without end
# in tests/soak.
@pytest.mark.parametrize(("mode", "kills"), [("elide", 1), ("classic", 1), ("passthrough", 2), ("view", 2)])
def test_no_reader_notices_kills(shell: Shell, source: Path, tmp_path: Path, mode: str, kills: int) -> None:
    # The cache is too small for everything: files are evicted, fetched again, and opened in both ways.
    quota = "10Mi" if mode == "passthrough" else "1Gi"
    words = (*mode_words(mode), "--block-size", "256Ki")
    cache = tmp_path / "cache"
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=cache, quota=quota) as mountpoint:
        with readers(mountpoint, source, count=4) as reading:
            for _ in range(kills):
                reading.wait_for_a_round()
                beyond = kill_process(shell, mountpoint)
                wait_until_restarted(shell, mountpoint, beyond=beyond)
            reading.wait_for_a_round()
        assert registered(shell, mountpoint).restarts == kills
        assert shell.run("verify", mountpoint).code == 0


def test_a_read_that_waits_for_its_origin_is_answered_by_the_next_process(
    liar: FaultyOrigin, lying_bucket: Bucket, tmp_path: Path
) -> None:
    shell = shell_without_server(tmp_path / "home")
    shell.environment |= lying_bucket.server.credentials.environment()
    shell.environment["AWS_REGION"] = lying_bucket.server.region
    content = random.Random(1).randbytes(24 << 20)
    lying_bucket.fill({"large": content})
    with shell.mounted(
        lying_bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=lying_bucket.options
    ) as mountpoint:
        # Some of it is there before; the origin keeps the rest to itself.
        held = liar.add(Fault(Lie.HELD, "/large", after=2))
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append((mountpoint / "large").read_bytes()))
        reader.start()
        wait_until(lambda: held.done, lambda: liar.requests)
        asked = held.done
        beyond = kill_process(shell, mountpoint)
        wait_until_restarted(shell, mountpoint, beyond=beyond)
        wait_until(lambda: held.done > asked or not reader.is_alive(), lambda: (asked, held.done))
        assert reader.is_alive(), "all was read without the origin"
        held.released.set()
        reader.join(DEADLINE_S)
        assert found == [content]


# Reads entries until it was told so many, says so, and goes on when its input ends.
LISTER = """
import os, sys
with os.scandir(sys.argv[1]) as entries:
    found = []
    for entry in entries:
        found.append((entry.name, entry.stat().st_size))
        if len(found) == int(sys.argv[3]):
            print("begun", flush=True)
            sys.stdin.read()
assert sorted(found) == [(f"{n:06}", 0) for n in range(int(sys.argv[2]))], len(found)
print("all", flush=True)
"""


def test_a_listing_of_a_large_folder_goes_on(shell: Shell, tmp_path: Path) -> None:
    large = tmp_path / "data" / "large"
    large.mkdir(parents=True)
    count = 9_000
    for number in range(count):
        (large / f"{number:06}").touch()
    with shell.mounted(
        str(tmp_path / "data"), tmp_path / "mnt", "--mode", "classic", cache=tmp_path / "cache"
    ) as mountpoint:
        for told_before in (1, count // 3, count - 1500):
            Path("/proc/sys/vm/drop_caches").write_text("2")
            command = [sys.executable, "-c", LISTER, mountpoint / "large", str(count), str(told_before)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            with subprocess.Popen(command, text=True, **pipes) as lister:
                assert lister.stdout.readline() == "begun\n"
                beyond = kill_process(shell, mountpoint)
                said, failure = lister.communicate(timeout=DEADLINE_S)
            assert said == "all\n", failure
            wait_until_restarted(shell, mountpoint, beyond=beyond)


def test_whichever_of_supervisor_and_process_is_killed_the_other_starts_it_anew(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        with readers(mountpoint, source, count=2) as reading:
            for _ in range(2):
                before = entry_of(shell, mountpoint)
                os.kill(before["supervisor_pid"], signal.SIGKILL)
                wait_until_restarted(shell, mountpoint, beyond=before["restarts"])
                # It took the place of its supervisor, under its own number.
                assert entry_of(shell, mountpoint)["supervisor_pid"] == before["pid"]
                reading.wait_for_a_round()
                beyond = kill_process(shell, mountpoint)
                wait_until_restarted(shell, mountpoint, beyond=beyond)
                reading.wait_for_a_round()
            shell.must("restart", mountpoint)
            reading.wait_for_a_round()
        assert "the supervisor has died: this process goes on as one" in log_of(shell, mountpoint)
        assert tree_of(mountpoint) == tree_of(source)
        after = entry_of(shell, mountpoint)
        assert after["restarts"] == 5
        shell.must("unmount", mountpoint)
        wait_until_ended(after["pid"], after["supervisor_pid"])


def test_a_process_that_is_stopped_for_a_while_is_not_replaced(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        before = entry_of(shell, mountpoint)
        with readers(mountpoint, source, count=2) as reading:
            for pid in (before["pid"], before["supervisor_pid"]):
                reading.wait_for_a_round()
                freeze(pid)
                # So long that who watches has looked more than once.
                time.sleep(0.5)
                os.kill(pid, signal.SIGCONT)
            reading.wait_for_a_round()
        after = entry_of(shell, mountpoint)
        assert (after["pid"], after["restarts"]) == (before["pid"], 0)


def test_a_process_that_cannot_start_again_ends_the_mount_in_words(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    command = [HEADRACE, "mount", source, mountpoint, "--cache", f"{tmp_path}/cache:1Gi", "--foreground"]
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        supervisor = subprocess.Popen(
            list(map(str, command)), env=shell.full_environment(), stdin=subprocess.DEVNULL, stderr=stderr
        )
    try:
        wait_until(lambda: os.path.ismount(mountpoint), log.read_text)
        # The kernel shows it a little before its process registers it.
        wait_until(lambda: is_answered(shell, mountpoint), log.read_text)
        assert registered(shell, mountpoint).supervisor_pid == supervisor.pid
        # Nothing of it in the kernel's memory, so that a read must ask.
        descriptor = os.open(mountpoint / "part-00", os.O_RDONLY)
        (tmp_path / "cache").rename(tmp_path / "elsewhere")
        (tmp_path / "cache").write_text("not a folder")
        kill_process(shell, mountpoint)
        with pytest.raises(OSError, match=r"not connected|aborted|Input/output"):
            os.pread(descriptor, 100, 500_000)
        os.close(descriptor)
        assert supervisor.wait(DEADLINE_S) == 3, log.read_text()
    finally:
        supervisor.kill()
        shell.run("unmount", "--force", mountpoint)
    assert "giving up" in log.read_text()
    assert not os.path.ismount(mountpoint)
    assert list(mountpoint.iterdir()) == []
    assert json.loads(shell.must("status", "--json").stdout) == []


def test_kills_from_outside_never_end_a_mount_however_quickly_they_come(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    """Ten processes in a row are killed as soon as they exist: none has served for as much as a second."""
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        entry = registered(shell, mountpoint)
        killed = {kill_process(shell, mountpoint): entry.pid}
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(tree_of, mountpoint)
            for number in range(1, 10):
                killed[number] = kill_next(entry.supervisor_pid, set(killed.values()))
            assert reading.result(DEADLINE_S) == tree_of(source)
        wait_until_restarted(shell, mountpoint, beyond=len(killed) - 1)
        assert registered(shell, mountpoint).restarts == len(killed) == 10
        assert registered(shell, mountpoint).supervisor_pid == entry.supervisor_pid


def kill_next(supervisor: int, before: set[int]) -> int:
    """Kills the next mount process of a supervisor as soon as it exists."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    found: list[int] = []

    def has_begun() -> bool:
        found[:] = [child for child in map(int, children.read_text().split()) if child not in before]
        return bool(found)

    wait_until(has_begun, lambda: log_of_children(children))
    os.kill(found[0], signal.SIGKILL)
    return found[0]


def log_of_children(children: Path) -> str:
    return f"{children}: {children.read_text() if children.exists() else 'gone'}"


def test_the_program_is_replaced_while_programs_read(shell: Shell, source: Path, tmp_path: Path) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        before = entry_of(shell, mountpoint)
        with readers(mountpoint, source, count=4) as reading:
            for _ in range(2):
                reading.wait_for_a_round()
                shell.must("restart", mountpoint)
            reading.wait_for_a_round()
        after = entry_of(shell, mountpoint)
        assert after["pid"] != before["pid"]
        assert (after["supervisor_pid"], after["restarts"]) == (before["supervisor_pid"], 2)
        assert after["last_restart"] == "was replaced"
        # The new supervisor does its work, too.
        kill_process(shell, mountpoint)
        assert tree_of(mountpoint) == tree_of(source)
        wait_until_restarted(shell, mountpoint, beyond=2)


@pytest.mark.parametrize("whom", ["pid", "supervisor_pid"])
def test_being_told_to_end_is_no_crash(shell: Shell, source: Path, tmp_path: Path, whom: str) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        entry = entry_of(shell, mountpoint)
        os.kill(entry[whom], signal.SIGTERM)
        wait_until_ended(entry["pid"], entry["supervisor_pid"])
        assert not os.path.ismount(mountpoint)
        assert "WARNING" not in Path(entry["log_file"]).read_text()


@pytest.mark.parametrize("mode", (*MODES, "view"))
def test_an_open_file_keeps_its_version_across_refreshes_and_kills(
    shell: Shell, source: Path, tmp_path: Path, mode: str
) -> None:
    changing = source / "changing"
    changing.write_bytes(b"version 0 " * 50_000)
    words = mode_words(mode)
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=tmp_path / "cache") as mountpoint:
        shell.must("warm", mountpoint)
        opened = [os.open(mountpoint / "changing", os.O_RDONLY)]
        for version in (1, 2):
            changing.write_bytes(f"version {version} ".encode() * 50_000)
            shell.must("refresh", mountpoint)
            shell.must("warm", mountpoint)
            opened.append(os.open(mountpoint / "changing", os.O_RDONLY))
            beyond = kill_process(shell, mountpoint)
            for number, descriptor in enumerate(opened):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                assert os.pread(descriptor, 1 << 20, 0) == f"version {number} ".encode() * 50_000
            assert (mountpoint / "changing").read_bytes() == f"version {version} ".encode() * 50_000
            wait_until_restarted(shell, mountpoint, beyond=beyond)
        for descriptor in opened:
            os.close(descriptor)


@pytest.mark.root
def test_a_request_that_a_thread_takes_while_it_is_killed_is_not_failed(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    """The kernel answers EIO when it cannot put a request into the memory of the thread that takes it, and once the
    thread is to die, memory that was never used is no longer given to it."""
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        for beyond in range(3):
            entry = wait_until_restarted(shell, mountpoint, beyond=beyond - 1)
            with _ahead_of(entry["pid"]):
                # This thread goes first, so all of the process are told to die, and still there to take the request.
                os.kill(entry["pid"], signal.SIGKILL)
                with pytest.raises(FileNotFoundError):
                    (mountpoint / f"absent-{beyond}").stat()


@contextlib.contextmanager
def _ahead_of(pid: int) -> Iterator[None]:
    """While the block runs, this thread has a processor with all threads of a process, and they run when it waits."""
    processors = os.sched_getaffinity(0)
    one = {min(processors)}
    for thread in threads_of(pid):
        with contextlib.suppress(ProcessLookupError):  # threads of a pool end when they have nothing to do
            os.sched_setaffinity(thread, one)
    try:
        os.sched_setaffinity(0, one)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, processors)


def test_the_kernel_forgets_a_list_in_whose_place_another_of_the_same_number_came(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    """As after a master that lost its state, and numbers its lists from 1 again, while a mount's process was away."""
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        assert len(os.listdir(mountpoint)) == len(tree_of(source))
        with pytest.raises(FileNotFoundError):
            (mountpoint / "added").stat()
        (source / "added").write_bytes(b"new")
        with shell.mounted(str(source), tmp_path / "other", cache=tmp_path / "other-cache") as other:
            lists = [
                Path(entry_of(shell, each)["state_directory"], "snapshot-1.hrs")
                for each in (mountpoint, other)
            ]
            supervisor = entry_of(shell, mountpoint)["supervisor_pid"]
            freeze(supervisor)
            kill_process(shell, mountpoint)
            shutil.copyfile(lists[1], lists[0])
            os.kill(supervisor, signal.SIGCONT)
        wait_until_restarted(shell, mountpoint, beyond=0)
        wait_until(lambda: tree_of(mountpoint) == tree_of(source), lambda: sorted(os.listdir(mountpoint)))


def test_a_mount_can_be_ended_while_its_process_is_away(shell: Shell, source: Path, tmp_path: Path) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        entry = entry_of(shell, mountpoint)
        os.kill(entry["pid"], signal.SIGKILL)
        shell.must("unmount", mountpoint)
        wait_until_ended(entry["supervisor_pid"])
        assert json.loads(shell.must("status", "--json").stdout) == []


@pytest.mark.parametrize("which", ["pid", "supervisor_pid"])
def test_a_mount_whose_process_stands_still_can_be_ended_by_force(
    shell: Shell, source: Path, tmp_path: Path, which: str
) -> None:
    mountpoint = tmp_path / "mnt"
    with shell.mounted(str(source), mountpoint, cache=tmp_path / "cache"):
        # Nobody has looked at it yet: who does from now on waits for an answer.
        entry = entry_of(shell, mountpoint)
        freeze(entry[which])
        shell.must("unmount", "--force", mountpoint)
        wait_until_ended(entry["pid"], entry["supervisor_pid"])
        # Nothing of it is in the way of the next one.
        with shell.mounted(str(source), mountpoint, cache=tmp_path / "cache"):
            assert tree_of(mountpoint) == tree_of(source)


@pytest.mark.parametrize("which", ["pid", "supervisor_pid"])
def test_commands_do_not_wait_for_a_mount_whose_process_stands_still(
    shell: Shell, source: Path, tmp_path: Path, which: str
) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        entry = entry_of(shell, mountpoint)
        freeze(entry[which])
        refused = shell.run("mount", source, mountpoint)
        assert f"something is mounted at {mountpoint} already" in refused.stderr
        assert f"headrace unmount {mountpoint}" in refused.stderr
        refused = shell.run("restart", mountpoint)
        assert f"process {entry[which]} stands still" in refused.stderr
        assert f"kill -CONT {entry[which]}" in refused.stderr
        assert f"kill -KILL {entry[which]}" in refused.stderr
        # Then it is replaced after all.
        os.kill(entry[which], signal.SIGCONT)
        wait_until(
            lambda: registered(shell, mountpoint).pid != entry["pid"], lambda: entry_of(shell, mountpoint)
        )
        assert tree_of(mountpoint) == tree_of(source)


def test_who_ends_a_mount_whose_process_stands_still_is_told_so(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        pid = entry_of(shell, mountpoint)["pid"]
        freeze(pid)
        refused = shell.run("unmount", mountpoint)
        assert f"{mountpoint} is unmounted, but its process {pid} stands still" in refused.stderr
        assert f"kill -CONT {pid}" in refused.stderr and f"kill -KILL {pid}" in refused.stderr
        os.kill(pid, signal.SIGCONT)
        wait_until_ended(pid)


@pytest.mark.root
def test_a_kill_in_the_middle_of_an_invalidation_is_survived(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    """The kernel holds who invalidates a name while a look-up in its folder waits for an answer."""
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        before = entry_of(shell, mountpoint)
        (source / "part-00").write_bytes(b"new")
        (mountpoint / "part-00").stat()
        found: list[int] = []
        look_up = threading.Thread(
            target=lambda: found.append((mountpoint / "part-01").stat().st_size), daemon=True
        )
        with stopped_threads(before["pid"], "headrace-fuse"):
            look_up.start()
            # Not before it waits in the kernel, with the folder in its hands.
            wait_until(
                lambda: sleeps_on(os.getpid(), look_up.native_id or 0, b"SD"),
                lambda: "the look-up does not wait",
            )
            shell.must("refresh", mountpoint)
            wait_until_held(before["supervisor_pid"])
            os.kill(before["pid"], signal.SIGKILL)
        look_up.join(DEADLINE_S)
        assert found == [(source / "part-01").stat().st_size]
        wait_until_restarted(shell, mountpoint, beyond=0)
        assert tree_of(mountpoint) == tree_of(source)
