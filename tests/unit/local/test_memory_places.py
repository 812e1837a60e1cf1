"""A cache in memory lies where only its user can make it, whoever that is and whatever this machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.local.nodes import memory_places
from headrace.local.nodes.memory_places import on_this_machine

PLANNED = "/run/headrace/memory/default/imagenet"


def test_root_uses_the_memory_that_only_root_writes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(memory_places, "_RUN", Path("/proc"))
    assert on_this_machine(PLANNED) == PLANNED
    # In a container it is often no memory.
    monkeypatch.setattr(memory_places, "_RUN", Path("/usr"))
    assert on_this_machine(PLANNED) == "/dev/shm/headrace-0/default/imagenet"


def test_another_user_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1005)
    assert on_this_machine(PLANNED) == "/dev/shm/headrace-1005/default/imagenet"


@pytest.mark.parametrize(
    "named", ["/dev/shm/default/imagenet", "/ssd/default/imagenet", "/run/headrace/memories"]
)
def test_what_a_person_names_stays(named: str) -> None:
    assert on_this_machine(named) == named
