"""A short walk over the whole local backend, always the same way; tests/soak walks on, at random."""

from __future__ import annotations

from pathlib import Path

import pytest

from .convergence import walk

SEED = 4


@pytest.mark.timeout(1200)
def test_whatever_is_declared_and_whatever_dies_the_world_is_as_declared_once_it_is_quiet(
    tmp_path: Path,
) -> None:
    walk(tmp_path, SEED, range(2))
