"""A random walk over the whole local backend, for as long as there is time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.integration.convergence import walk


def test_whatever_is_declared_and_whatever_dies_the_world_is_as_declared_once_it_is_quiet(
    tmp_path: Path, seed: int, rounds: Iterator[int]
) -> None:
    walk(tmp_path, seed, rounds)
