"""A dataset that lives: scaled, given other keys, caches and mounts, while programs read and compare all the time."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headrace.testing.buckets import put_object
from headrace.testing.s3_client import Credentials
from headrace.testing.s3_server import S3Server

from .living import Backend, backend, bucket, declared, level, replaced, same
from .survival import readers

A = "{mountPoint: 's3://data/a', name: a}"
B = "{mountPoint: 's3://data/b', name: b}"


def content(name: str) -> bytes:
    return random.Random(name).randbytes(900_000 + len(name) * 4099 + int(name[-5]) * 70_001)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with backend(tmp_path_factory.mktemp("living")) as running:
        yield running


@pytest.fixture(scope="module")
def server(made: Backend) -> Iterator[S3Server]:
    with bucket(made) as running:
        folder = running.bucket_folder("data")
        for where in ("a", "b", "cold"):
            for number in range(6):
                name = f"{where}/part-{number}.bin"
                put_object(folder, name, content(name))
        yield running


@pytest.fixture
def living(made: Backend, server: S3Server) -> Path:
    """The dataset as each test begins with it: one mount, two workers; where node 1 sees it."""
    made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]"))
    mounted = made.mountpoint("living")
    made.eventually(lambda: (mounted / "a").is_dir() and os.listdir(mounted) == ["a"], "living")
    # What it says before it has looked is of the test before.
    made.eventually(lambda: made.is_bound("living", 2), "living")
    return mounted


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
        for change in ({"levels": level(made.folder / "other", "32Mi")}, {"levels": two, "copies": 2}):
            made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]", **change))
            changed = ("worker-0", "worker-1", *(["master"] if "copies" in change else []))
            made.eventually(partial(replaced, made, before, *changed), "living")
            made.eventually(lambda: made.is_bound("living", 2), "living")
            before = made.roles("living")
    assert not (made.folder / "cache").exists()


def test_mounts_come_and_go(made: Backend, server: S3Server, living: Path) -> None:
    cache, source = made.folder / "cache", server.bucket_folder("data")
    before = made.roles("living")
    with readers(living / "a", source / "a", 2):
        made.apply(declared(server, cache, mounts=f"[{A}, {B}]"))
        made.eventually(lambda: sorted(os.listdir(living)) == ["a", "b"], "living")
        # A worker that is still the old one's refuses what it does not know.
        made.eventually(lambda: same(living / "b", source / "b"), "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")

        elsewhere = B.replace("data/b", "data/cold")
        made.apply(declared(server, cache, mounts=f"[{A}, {elsewhere}]"))
        made.eventually(lambda: same(living / "b", source / "cold"), "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")
    with readers(living / "b", source / "cold", 2):
        made.apply(declared(server, cache, mounts=f"[{elsewhere}]"))
        made.eventually(lambda: os.listdir(living) == ["b"], "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")
    now = made.roles("living")
    assert {name: line.pid for name, line in now.items() if name.startswith("mount")} == {
        name: line.pid for name, line in before.items() if name.startswith("mount")
    }


def test_rotated_keys_take_effect(made: Backend, server: S3Server, living: Path) -> None:
    source = server.bucket_folder("data")
    assert same(living / "a", source / "a")
    text = declared(server, made.folder / "cache", mounts=f"[{A}]")
    old = server.credentials
    with readers(living / "a", source / "a", 2):
        server.give_keys(Credentials(old.access_key_id, "rotated-secret-0123456789"))
        before = made.roles("living")
        made.apply(text.replace(old.secret_access_key, "wrong-" * 4))
        made.eventually(
            lambda: made.condition("living", "Degraded").get("reason") == "AccessDenied", "living"
        )
        # The workers go on with the keys that they have: of two that are wrong, these may still be right.
        assert not replaced(made, before, "worker-0")
        assert not replaced(made, before, "worker-1")
        made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]"))
        made.eventually(partial(replaced, made, before, "master", "worker-0", "worker-1"), "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")
        made.eventually(lambda: made.condition("living", "Degraded").get("status") != "True", "living")
    # What nobody has cached comes with the new keys.
    made.apply(declared(server, made.folder / "cache", mounts="[{mountPoint: 's3://data/cold', name: a}]"))
    made.eventually(lambda: same(living / "a", source / "cold"), "living")
