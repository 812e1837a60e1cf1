"""A dataset that lives: everything that can be changed of it, again and again, while programs read and compare."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.integration.declared import (
    ELSEWHERE,
    A,
    B,
    Backend,
    backend,
    begin,
    bucket,
    declared,
    fill,
    level,
    replaced,
    same,
)
from tests.integration.survival import readers

from headrace.testing.s3_client import Credentials
from headrace.testing.s3_server import S3Server


def test_no_reader_notices_changes_again_and_again(tmp_path: Path, seed: int, rounds: Iterator[int]) -> None:
    with backend(tmp_path) as made, bucket(made) as server:
        fill(server)
        for number in rounds:
            changes = [change_caches, change_mounts, rotate_keys]
            random.Random(seed + number).shuffle(changes)
            for change in changes:
                change(made, server, begin(made, server), seed + number)


def change_caches(made: Backend, server: S3Server, living: Path, seed: int) -> None:
    source = server.bucket_folder("data") / "a"
    before = made.roles("living")
    two = f"{level(made.folder / 'memory', '8Mi', 'MEM')[:-1]}, {level(made.folder / 'other')[1:]}"
    with readers(living / "a", source, 2, pause_s=0):
        for change in ({"levels": level(made.folder / "other", "32Mi")}, {"levels": two, "copies": 2}):
            made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]", **change))
            changed = ("worker-0", "worker-1", *(["master"] if "copies" in change else []))
            made.eventually(partial(replaced, made, before, *changed), "living")
            made.eventually(lambda: made.is_bound("living", 2), "living")
            before = made.roles("living")
    assert not (made.folder / "cache").exists()


def change_mounts(made: Backend, server: S3Server, living: Path, seed: int) -> None:
    cache, source = made.folder / "cache", server.bucket_folder("data")
    before = mounts_of(made)
    with readers(living / "a", source / "a", 2, pause_s=0):
        made.apply(declared(server, cache, mounts=f"[{A}, {B}]"))
        made.eventually(lambda: sorted(os.listdir(living)) == ["a", "b"], "living")
        # A worker that is still the old one's refuses what it does not know.
        made.eventually(lambda: same(living / "b", source / "b"), "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")

        made.apply(declared(server, cache, mounts=f"[{A}, {ELSEWHERE}]"))
        made.eventually(lambda: same(living / "b", source / "cold"), "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")
    with readers(living / "b", source / "cold", 2, pause_s=0):
        made.apply(declared(server, cache, mounts=f"[{ELSEWHERE}]"))
        made.eventually(lambda: os.listdir(living) == ["b"], "living")
        made.eventually(lambda: made.is_bound("living", 2), "living")
    assert mounts_of(made) == before


def mounts_of(made: Backend) -> dict[str, int | None]:
    """The processes of the mounts, which no change of the dataset replaces."""
    return {name: line.pid for name, line in made.roles("living").items() if name.startswith("mount")}


def rotate_keys(made: Backend, server: S3Server, living: Path, seed: int) -> None:
    source = server.bucket_folder("data")
    assert same(living / "a", source / "a")
    text = declared(server, made.folder / "cache", mounts=f"[{A}]")
    old = server.credentials
    with readers(living / "a", source / "a", 2, pause_s=0):
        server.give_keys(
            Credentials(old.access_key_id, f"rotated-secret-{random.Random(seed).randrange(10**10):010}")
        )
        # What `begin` has changed may still be under way.
        made.eventually(lambda: {"master", "worker-0", "worker-1"} <= made.roles("living").keys(), "living")
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
