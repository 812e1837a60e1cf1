"""A dataset whose supervisor is killed at every step of its life, and at any moment."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from tests.integration.declared import A, Backend, backend, bucket, declared, same
from tests.integration.killing import fill, processes, set_up_and_delete


def test_a_setup_and_a_deletion_survive_the_supervisors_death_at_each_step(tmp_path: Path) -> None:
    with backend(tmp_path, nodes=2) as made, bucket(made) as server:
        fill(server)
        # Two that were quiet, and more that were not: else nothing was tried.
        assert set_up_and_delete(made, server, lambda: count(1)) > 6


def test_a_supervisor_killed_again_and_again_gets_there(
    tmp_path: Path, seed: int, rounds: Iterator[int]
) -> None:
    chance = random.Random(seed)
    with backend(tmp_path, nodes=2) as made, bucket(made) as server:
        fill(server)
        for _ in rounds:
            made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]"))
            kill_supervisors(made, chance)
            made.eventually(lambda: made.is_bound("living", 2) and len(made.roles("living")) == 5, "living")
            there, source = made.mountpoint("living", 2) / "a", server.bucket_folder("data") / "a"
            made.eventually(partial(same, there, source), "living")
            made.shell.must("delete", "dataset", "living", "--no-wait")
            made.shell.must("delete", "alluxioruntime", "living", "--no-wait", "--ignore-not-found")
            kill_supervisors(made, chance)
            made.eventually(lambda: not made.object("Dataset", "living") and not processes(made), "living")
            assert not (made.folder / "cache").exists()


def kill_supervisors(made: Backend, chance: random.Random) -> None:
    """Some in a row, each after a part of its work."""
    for _ in range(chance.randint(1, 4)):
        time.sleep(chance.random())
        os.kill(made.client.hello().pid, signal.SIGKILL)
        made.shell.must("up")
