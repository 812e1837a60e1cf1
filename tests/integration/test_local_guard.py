"""The backend of a machine goes on by itself when its supervisor is killed, and stays away once it is taken down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle import launch
from headrace.local.lifecycle.backend_lock import is_owned
from headrace.local.lifecycle.guard import DISMISSED
from headrace.local.lifecycle.guard_keeping import GUARD
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.protocol.messages import NodesWish, SupervisorSpec
from headrace.local.store.database import Database
from headrace.process_stat import stat_of
from headrace.testing.processes import freeze

from .declared import Backend, backend
from .harness import eventually

pytestmark = pytest.mark.slow

SECRET = "{apiVersion: v1, kind: Secret, metadata: {name: known, namespace: default}, stringData: {a: b}}\n"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Backend]:
    with backend(tmp_path, nodes=1, plain=True) as made:
        yield made


def _guards(up: Backend) -> list[int]:
    database = Database(_places(up).database)
    try:
        return [each.pid for each in tagged_processes(database.instance) if each.role == GUARD]
    finally:
        database.close()


def _guards_of(up: Backend, supervisor: int) -> list[int]:
    """Its own: the one that has started it goes on for a moment."""
    stats = ((pid, stat_of(pid)) for pid in _guards(up))
    return [
        pid for pid, stat in stats if stat is not None and stat.parent == supervisor and not stat.has_ended
    ]


def _places(up: Backend) -> BackendLayout:
    return BackendLayout(up.folder / "state" / "local")


def _supervisor(up: Backend) -> int | None:
    try:
        return up.client.hello().pid
    except HeadraceError:
        return None


def _await_another(up: Backend, killed: int) -> int:
    seen: list[int | None] = []

    def has_come() -> bool:
        seen.append(_supervisor(up))
        return seen[-1] not in (None, killed)

    eventually(has_come)
    assert seen[-1] is not None
    return seen[-1]


def _await_guard(up: Backend, supervisor: int, killed: int | None) -> int:
    seen: list[int] = []

    def has_come() -> bool:
        seen.extend(each for each in _guards_of(up, supervisor) if each != killed)
        return bool(seen)

    eventually(has_come, lambda: _guards(up))
    return seen[0]


def _run_guard(up: Backend, supervisor: int, told: bytes) -> None:
    command = [sys.executable, "-P", "-m", "headrace.local.lifecycle.guard", str(supervisor)]
    subprocess.run(command, input=told, env=up.shell.full_environment(), check=True, timeout=60)


def test_a_killed_supervisor_comes_back_and_so_does_its_guard(up: Backend) -> None:
    up.apply(SECRET)
    supervisor = up.client.hello().pid
    for _ in range(2):
        guard = _await_guard(up, supervisor, None)
        os.kill(guard, signal.SIGKILL)
        _await_guard(up, supervisor, guard)
        os.kill(supervisor, signal.SIGKILL)
        supervisor = _await_another(up, supervisor)
    assert up.object("Secret", "known") is not None


def test_a_guard_that_a_supervisor_from_before_an_upgrade_starts_is_told_on_its_input(up: Backend) -> None:
    hello = up.client.hello()
    guard = _await_guard(up, hello.pid, None)
    freeze(guard)
    os.kill(hello.pid, signal.SIGKILL)
    spec = SupervisorSpec(folder=_places(up).folder, nodes=NodesWish(), release=hello.release)
    told = spec.model_dump_json().encode() + b"\n"
    _run_guard(up, hello.pid, told + DISMISSED)
    assert _supervisor(up) is None
    _run_guard(up, hello.pid, told)
    _await_another(up, hello.pid)
    os.kill(guard, signal.SIGKILL)


def test_who_takes_a_backend_down_is_not_answered_by_the_next_supervisor(up: Backend) -> None:
    eventually(lambda: len(_guards(up)) == 1, lambda: _guards(up))
    # It does not hear SIGTERM, and is killed in the end.
    freeze(up.client.hello().pid)
    launch.stop(_places(up), wait_s=4.0)
    eventually(lambda: not _guards(up), lambda: _guards(up))
    assert not is_owned(_places(up))
    up.shell.must("up")
    assert _supervisor(up) is not None
