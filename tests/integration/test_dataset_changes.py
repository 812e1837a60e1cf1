"""A dataset that lives: scaled, given other keys, caches and mounts, while programs read and compare all the time.

Each change once; tests/soak has more of them, in a row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headrace.testing.s3_client import Credentials
from headrace.testing.s3_server import S3Server

from .declared import A, B, Backend, backend, begin, bucket, declared, fill, level, replaced, same
from .survival import readers


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with backend(tmp_path_factory.mktemp("living")) as running:
        yield running


@pytest.fixture(scope="module")
def server(made: Backend) -> Iterator[S3Server]:
    with bucket(made) as running:
        fill(running)
        yield running


@pytest.fixture
def living(made: Backend, server: S3Server) -> Path:
    """The dataset as each test begins with it."""
    return begin(made, server)


def test_workers_come_and_go(made: Backend, server: S3Server, living: Path) -> None:
    source = server.bucket_folder("data") / "a"
    with readers(living / "a", source, 2):
        made.shell.must("scale", "--replicas=3", "alluxioruntime/living")
        made.eventually(lambda: made.is_bound("living", 3), "living")
        made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]", workers=1))
        made.eventually(lambda: made.is_bound("living", 1), "living")


def test_caches_and_copies_are_changed_worker_by_worker(
    made: Backend, server: S3Server, living: Path
) -> None:
    source = server.bucket_folder("data") / "a"
    before = made.roles("living")
    two = f"{level(made.folder / 'memory', '8Mi', 'MEM')[:-1]}, {level(made.folder / 'other')[1:]}"
    with readers(living / "a", source, 2):
        made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]", levels=two, copies=2))
        made.eventually(partial(replaced, made, before, "master", "worker-0", "worker-1"), "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")
    assert not (made.folder / "cache").exists()


def test_mounts_come_and_go(made: Backend, server: S3Server, living: Path) -> None:
    cache, source = made.folder / "cache", server.bucket_folder("data")
    before = mounts_of(made)
    with readers(living / "a", source / "a", 2):
        made.apply(declared(server, cache, mounts=f"[{A}, {B}]"))
        made.eventually(lambda: sorted(os.listdir(living)) == ["a", "b"], "living")
        # A worker that is still the old one's refuses what it does not know.
        made.eventually(lambda: same(living / "b", source / "b"), "living")
        made.apply(declared(server, cache, mounts=f"[{A}]"))
        made.eventually(lambda: os.listdir(living) == ["a"], "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")
    assert mounts_of(made) == before


def mounts_of(made: Backend) -> dict[str, int | None]:
    """The processes of the mounts, which no change of the dataset replaces."""
    return {name: line.pid for name, line in made.roles("living").items() if name.startswith("mount")}


def test_rotated_keys_take_effect(made: Backend, server: S3Server, living: Path) -> None:
    source, old = server.bucket_folder("data"), server.credentials
    assert same(living / "a", source / "a")
    with readers(living / "a", source / "a", 2):
        server.give_keys(Credentials(old.access_key_id, "rotated-secret-0123456789"))
        # What the test before has changed may still be under way.
        made.eventually(lambda: {"master", "worker-0", "worker-1"} <= made.roles("living").keys(), "living")
        before = made.roles("living")
        made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]"))
        made.eventually(partial(replaced, made, before, "master", "worker-0", "worker-1"), "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")
    # What nobody has cached comes with the new keys.
    made.apply(declared(server, made.folder / "cache", mounts="[{mountPoint: 's3://data/cold', name: a}]"))
    made.eventually(lambda: same(living / "a", source / "cold"), "living")
