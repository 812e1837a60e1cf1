"""A dataset whose supervisor is killed while it is set up and deleted: it ends up as if nobody had been."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle.guard_keeping import GUARD
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.protocol.messages import Named
from headrace.testing.buckets import put_object
from headrace.testing.s3_server import S3Server

from .declared import DEADLINE_S, A, Backend, declared, same
from .harness import HEADRACE

QUIET_S = 6.0
_BLINK_S = 0.0005
"""Between two looks: shorter than a commit takes."""


def fill(server: S3Server) -> None:
    folder = server.bucket_folder("data")
    for number in range(4):
        put_object(folder, f"a/part-{number}.bin", random.Random(number).randbytes(700_000 + number))


def set_up_and_delete(made: Backend, server: S3Server, commits: Callable[[], Iterable[int]]) -> int:
    """Both, with the supervisor killed at these commits: in the end all is there, and then nothing; how many lives."""
    cache = made.folder / "cache"
    made.apply(declared(server, cache, mounts=f"[{A}]"))
    wanted = {"master", "worker-0", "worker-1", "mount-node-1", "mount-node-2"}
    lives = kill_at_commits(
        made, commits(), lambda: made.is_bound("living", 2) and set(made.roles("living")) == wanted
    )
    made.eventually(lambda: made.is_bound("living", 2), "living")
    made.eventually(lambda: set(made.roles("living")) == wanted, "living")
    assert processes(made) == {f"default.living.{role}": 1 for role in wanted}
    for node in (1, 2):
        mountpoint = made.mountpoint("living", node)
        made.eventually(partial(same, mountpoint / "a", server.bucket_folder("data") / "a"), "living")
        assert Path("/proc/self/mountinfo").read_text().count(f" {mountpoint} ") == 1

    # Without a command: the supervisor is to be killed before it is done.
    both = [Named(kind=kind, namespace="default", name="living") for kind in ("Dataset", "AlluxioRuntime")]
    made.client.delete(both)
    lives += kill_at_commits(made, commits(), lambda: left_of(made) == ())
    made.shell.must("wait", "--for=delete", "dataset/living", "--timeout", "100s")
    made.shell.must("wait", "--for=delete", "alluxioruntime/living", "--timeout", "100s")
    made.eventually(lambda: not processes(made), "living")
    left = left_in(cache)
    assert left == [], "\n".join([*left, *supervisor_log(made).splitlines()[-120:]])
    assert not (made.folder / "state" / "local" / "datasets" / "default.living").exists()
    assert str(made.folder / "state") not in Path("/proc/self/mountinfo").read_text()
    assert left_of(made) == ()
    return lives


def left_of(made: Backend) -> tuple[object, ...]:
    """The objects that should be gone."""
    kinds = ["Dataset", "AlluxioRuntime", "PersistentVolume", "PersistentVolumeClaim"]
    return made.client.objects(kinds).items


def kill_at_commits(made: Backend, commits: Iterable[int], is_done: Callable[[], bool]) -> int:
    """Kills the supervisor at once, and each one after it at the commit of that number; how many lives it took.

    What was committed stays, so each life gets further than the one before; it is over when one has done all, and is
    quiet, or the last number was used.
    """
    pid, lives = made.client.hello().pid, 0
    os.kill(pid, signal.SIGKILL)
    for number in commits:
        lives, before = lives + 1, pid
        pid = _life(made, before, number, is_done)
        tell(f"life {lives}")
        if pid == before:
            return lives
    made.shell.must("up")
    return lives


def _life(made: Backend, before: int, commits: int, is_done: Callable[[], bool]) -> int:
    """Brings the backend up, and kills its supervisor at that commit; its number, or that of the one before when it was
    quiet and lives on.
    """
    starting = subprocess.Popen([HEADRACE, "up"], env=made.shell.full_environment(), stderr=subprocess.PIPE)
    try:
        name = f"file:{made.folder}/state/local/objects.db?mode=ro"
        with contextlib.closing(sqlite3.connect(name, uri=True, timeout=DEADLINE_S)) as database:
            return (
                pid if _kills_at_commit(database, pid := _owner(made, before), commits, is_done) else before
            )
    finally:
        # Killed early, its supervisor gives it no answer, and it says so.
        starting.communicate(timeout=DEADLINE_S)


def _owner(made: Backend, before: int) -> int:
    """The next process that looks after the backend."""
    lock = BackendLayout(made.folder / "state" / "local").lock
    deadline = time.monotonic() + DEADLINE_S
    while (text := lock.read_text()) in ("", str(before)):
        assert time.monotonic() < deadline, "no supervisor started"
        time.sleep(_BLINK_S)
    return int(text)


def _kills_at_commit(
    database: sqlite3.Connection, pid: int, number: int, is_done: Callable[[], bool]
) -> bool:
    seen, commits, quiet_since = _version(database), 0, time.monotonic()
    while commits < number:
        if (version := _version(database)) != seen:
            seen, commits, quiet_since = version, commits + 1, time.monotonic()
        quiet_s = time.monotonic() - quiet_since
        assert quiet_s < DEADLINE_S, f"no commit {commits + 1}, and not all is done"
        # On a busy machine it may only be slow.
        if quiet_s > QUIET_S and _answers_yes(is_done):
            return False
        time.sleep(_BLINK_S)
    os.kill(pid, signal.SIGKILL)
    return True


def _answers_yes(is_done: Callable[[], bool]) -> bool:
    """A supervisor that does not serve yet has not done all."""
    try:
        return is_done()
    except HeadraceError:
        return False


def _version(database: sqlite3.Connection) -> int:
    """Another number after each commit of somebody else."""
    return int(database.execute("PRAGMA data_version").fetchone()[0])


def tell(text: str) -> None:
    """For whoever reads the test's output."""
    sys.stdout.write(f"{time.strftime('%X')} {text}\n")


def left_in(folder: Path) -> list[str]:
    """The folder itself, and all that is below it: nothing where there is none."""
    found = [str(folder)] * folder.exists()
    for parent, folders, files in os.walk(folder):
        found += [f"{parent}/{name}" for name in (*folders, *files)]
    return sorted(found)


def supervisor_log(made: Backend) -> str:
    """What all supervisors have said."""
    return BackendLayout(made.folder / "state" / "local").log.read_text()


def processes(made: Backend) -> Counter[str]:
    """How many processes were started as each role, and live; the supervisor's guard is none."""
    instance = made.client.hello().instance
    roles = (each.role for each in tagged_processes(instance) if each.is_first)
    return Counter(role for role in roles if role != GUARD)
