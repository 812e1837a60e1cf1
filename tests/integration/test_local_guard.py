"""The backend of a machine goes on by itself when its supervisor is killed, and stays away once it is taken down."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import ConfigError, HeadraceError, RefusedError
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle import launch, service
from headrace.local.lifecycle.backend_lock import is_owned
from headrace.local.lifecycle.guard import DISMISSED
from headrace.local.lifecycle.guard_keeping import GUARD
from headrace.local.lifecycle.revival import revive
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.processes.role_processes import read_roles
from headrace.local.protocol.messages import NodesWish, SupervisorSpec
from headrace.local.store.database import Database
from headrace.process.stat import stat_of
from headrace.roles.supervision.backend_watch import BackendWatch
from headrace.settings.environment import Environment
from headrace.testing.processes import freeze

from .declared import Backend, backend, begin, bucket, fill, same
from .harness import Shell, eventually

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


def _kill_both(up: Backend) -> int:
    """The supervisor, and the guard that would start another one; which supervisor that was."""
    supervisor = up.client.hello().pid
    _await_guard(up, supervisor, None)
    # So that no guard begins meanwhile.
    freeze(supervisor)
    for guard in _guards(up):
        os.kill(guard, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not is_owned(_places(up)))
    return supervisor


def _master(up: Backend) -> int:
    """Its process as it is written down, without asking anybody."""
    database = Database(_places(up).database)
    try:
        return next(record.pid for record in read_roles(database) if record.order.kind == "master")
    finally:
        database.close()


def test_the_supervisor_of_a_mount_has_a_backend_started_again_that_nobody_looks_after(
    tmp_path: Path,
) -> None:
    """From within the network of a node, where nodes have one."""
    with backend(tmp_path, nodes=2) as up, bucket(up) as server:
        fill(server)
        mounted = begin(up, server)
        before, master = _kill_both(up), _master(up)
        os.kill(master, signal.SIGKILL)
        assert "nobody looks after it" in up.shell.must("status", str(mounted)).stdout
        _await_another(up, before)
        up.eventually(lambda: up.is_bound("living", 2) and _master(up) != master, "living")
        assert "nobody looks after it" not in up.shell.must("status", str(mounted)).stdout
        assert same(mounted / "a", server.bucket_folder("data") / "a")


def test_a_backend_is_started_again_as_often_as_both_are_killed(up: Backend) -> None:
    up.apply(SECRET)
    for _ in range(2):
        before = _kill_both(up)
        # As the supervisor of a mount does that has just begun.
        watch = BackendWatch(_places(up).lock, up.shell.full_environment())

        def is_looked_after(watch: BackendWatch = watch) -> bool:
            watch.look()
            return is_owned(_places(up))

        eventually(is_looked_after)
        _await_another(up, before)
        eventually(lambda watch=watch: not watch.is_starting())
    assert up.object("Secret", "known") is not None


def test_nobody_starts_a_backend_that_was_taken_down_or_that_others_could_change(up: Backend) -> None:
    places, environment = _places(up), Environment(up.shell.full_environment())
    assert not revive(places, environment), "somebody looks after it"
    _kill_both(up)
    places.taken_down.touch()
    assert not revive(places, environment)
    places.taken_down.unlink()
    places.folder.chmod(0o777)
    try:
        with pytest.raises(RefusedError, match="no folder that this user alone may change"):
            revive(places, environment)
    finally:
        places.folder.chmod(0o700)
    places.revived.touch()
    assert not revive(places, environment), "another mount has just tried"
    places.revived.unlink()
    assert revive(places, environment)
    assert _supervisor(up) is not None


def _command_of(unit: str) -> list[str]:
    """What systemd would start, by its own rules as far as they are met here."""
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    return [
        word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix("ExecStart="))
    ]


def test_the_service_that_systemd_runs_has_a_backend_started_again(up: Backend) -> None:
    """Without a mount; the unit's own command, run by hand."""
    environment = Environment(up.shell.full_environment())
    before = _kill_both(up)
    command = _command_of(service.unit_text(_places(up), environment))
    with subprocess.Popen(command, env=dict(environment.variables), start_new_session=True) as watch:
        try:
            _await_another(up, before)
            assert watch.poll() is None
        finally:
            watch.terminate()
    # Ending the service ends nothing of the backend.
    assert _supervisor(up) is not None


@pytest.mark.parametrize("name", ["state", 'odd 100% $HOME "quoted" back\\slash'])
def test_the_unit_is_one_that_systemd_understands(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name / "local"
    variables = {
        "HOME": "/root",
        "HEADRACE_STATE_DIR": str(folder.parent),
        "AWS_SECRET_ACCESS_KEY": "PLANTED",
    }
    unit = service.unit_text(BackendLayout(folder), Environment(variables))
    assert _command_of(unit)[-1] == str(folder)
    assert "PLANTED" not in unit
    assert "KillMode=process" in unit
    file = tmp_path / "headrace-local-test.service"
    file.write_text(unit)
    if verify := shutil.which("systemd-analyze"):
        done = subprocess.run([verify, "verify", str(file)], capture_output=True, text=True, check=False)
        # Words about other units of this machine do not count.
        assert not [line for line in done.stderr.splitlines() if "headrace-local-test" in line], done.stderr


def test_a_folder_that_no_unit_can_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot stand in a service of systemd"):
        service.unit_text(BackendLayout(tmp_path / "a\nExecStart=b"), Environment({}))


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd runs this machine")
def test_without_systemd_a_service_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"HEADRACE_STATE_DIR": str(tmp_path / "state")})
    refused = shell.run("up", "--service")
    assert refused.code != 0 and "--service needs systemd" in refused.talk
    assert not (tmp_path / "state").exists()
