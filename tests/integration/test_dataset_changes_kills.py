"""A dataset whose supervisor and processes are killed: it ends up as if nobody had been; tests/soak has every step."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from headrace.local.protocol.messages import Named, RoleLine
from headrace.plan.dataset_status import READY_MESSAGE
from headrace.testing.s3_server import S3Server

from .declared import A, Backend, backend, bucket, declared, replaced, same
from .killing import fill, set_up_and_delete


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with backend(tmp_path_factory.mktemp("kills"), nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def server(made: Backend) -> Iterator[S3Server]:
    with bucket(made) as running:
        fill(running)
        yield running


def test_a_setup_and_a_deletion_survive_the_supervisors_death(made: Backend, server: S3Server) -> None:
    assert set_up_and_delete(made, server, lambda: (1, 4)) >= 3


def test_killed_processes_come_back_and_lost_workers_are_told(made: Backend, server: S3Server) -> None:
    source = server.bucket_folder("data") / "a"
    made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]"))
    made.eventually(lambda: made.is_bound("living", 2), "living")
    mounted = made.mountpoint("living") / "a"
    made.eventually(partial(same, mounted, source), "living")

    before, ready = made.roles("living"), times_ready(made)
    for line in before.values():
        os.kill(line.pid or 0, signal.SIGKILL)
    made.eventually(partial(replaced, made, before), "living")
    made.eventually(lambda: made.is_bound("living", 2) and len(made.roles("living")) == 5, "living")
    made.eventually(partial(same, mounted, source), "living")
    made.eventually(lambda: times_ready(made) > ready, "living")


def test_a_file_stays_open_though_the_supervisor_of_its_mount_is_killed(
    made: Backend, server: S3Server
) -> None:
    source = server.bucket_folder("data") / "a"
    made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]"))
    made.eventually(lambda: made.is_bound("living", 2), "living")
    mounted = made.mountpoint("living") / "a"
    name = next(path.name for path in sorted(source.iterdir()) if path.is_file())
    made.eventually((mounted / name).exists, "living")
    # Those that the test before has left may be about to start a mount process: until then nobody could go on.
    made.eventually(lambda: all(is_served(made, line) for line in mounts_of(made).values()), "living")

    mounts = mounts_of(made)
    with (mounted / name).open("rb") as file:
        for line in mounts.values():
            os.kill(line.pid or 0, signal.SIGKILL)
        made.eventually(partial(replaced, made, mounts), "living")
        assert file.read() == (source / name).read_bytes()
    now = made.roles("living")
    assert [now[role].restarts for role in mounts] == [line.restarts for line in mounts.values()]


def mounts_of(made: Backend) -> dict[str, RoleLine]:
    return {role: line for role, line in made.roles("living").items() if line.role == "mount"}


def is_served(made: Backend, mount: RoleLine) -> bool:
    """True when the supervisor has a mount process, which would take its place."""
    entry = made.shell.registry().find(str(made.mountpoint("living", int(mount.node.removeprefix("node-")))))
    return entry is not None and entry.supervisor_pid == mount.pid != entry.pid and not entry.is_restarting


def times_ready(made: Backend) -> int:
    """How often it was said that the dataset is ready, each time after it was not."""
    said = made.client.events(about=Named(kind="Dataset", namespace="default", name="living"))
    return sum(each.count for each in said if each.reason == "DatasetReady" and each.message == READY_MESSAGE)
