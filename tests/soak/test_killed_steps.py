"""A local backend whose setup or teardown is killed at every one of its steps."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from killed_steps import setup_killed_at, teardown_killed_at

from headrace.netns.namespaces import can_make_namespaces

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not can_make_namespaces(), reason="network namespaces need root"),
]


def test_a_setup_killed_at_any_step_is_finished_or_taken_away(tmp_path: Path) -> None:
    steps = next(step for step in count(1) if setup_killed_at(tmp_path, step))
    assert steps > 10


def test_a_teardown_killed_at_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    steps = next(step for step in count(1) if teardown_killed_at(tmp_path, step))
    assert steps > 2
