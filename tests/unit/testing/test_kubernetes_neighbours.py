"""Clusters of tests that come and go at the same moment, as those of two runners do, leave each other alone."""

from __future__ import annotations

import itertools
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.testing.kubernetes import registry
from headrace.testing.kubernetes.cluster import take_down
from headrace.testing.kubernetes.layout import Layout
from headrace.testing.kubernetes.network import take_addresses

# How many places for a cluster there are.
PLACES = 32


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The registry of a machine that has no cluster."""
    folder = tmp_path / "registry"
    monkeypatch.setattr(registry, "_FOLDER", folder)
    return folder


def _that_want_the_same_place(folder: Path, count: int) -> list[Layout]:
    layouts = (Layout(folder / f"state-{number}") for number in itertools.count())
    return list(itertools.islice((each for each in layouts if int(each.identity, 16) % PLACES == 5), count))


@pytest.mark.root
def test_clusters_that_are_made_at_the_same_moment_have_addresses_of_their_own(tmp_path: Path) -> None:
    layouts = _that_want_the_same_place(tmp_path, 3)
    try:
        with ThreadPoolExecutor() as pool:
            plans = list(pool.map(lambda layout: take_addresses(layout, 2), layouts))
    finally:
        for layout in layouts:
            take_down(layout.folder)
    assert len({plan.addresses.subnet for plan in plans}) == len(layouts)


def test_a_cluster_is_noted_although_the_last_one_leaves_at_the_same_moment(
    tmp_path: Path, entries: Path
) -> None:
    def come_and_go(layout: Layout) -> None:
        for _ in range(500):
            registry.enter(layout, None)
            assert registry.is_entered(layout)
            assert registry.abandoned() == []
            registry.leave(layout)

    with ThreadPoolExecutor() as pool:
        list(pool.map(come_and_go, (Layout(tmp_path / f"state-{number}") for number in range(4))))
    assert not entries.exists()


@pytest.mark.usefixtures("entries")
def test_what_somebody_else_takes_away_is_waited_for_and_not_taken_away_again(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "state")
    with subprocess.Popen(["sleep", "600"]) as owner:
        registry.enter(layout, owner.pid)
        owner.kill()
    assert registry.abandoned() == [layout.folder]
    asked, answers = threading.Event(), []

    def ask() -> None:
        asked.set()
        with registry.sole_remover(layout) as is_left:
            answers.append(is_left)

    with registry.sole_remover(layout) as is_left:
        assert is_left
        other = threading.Thread(target=ask)
        other.start()
        asked.wait()
        registry.leave(layout)
    other.join()
    assert answers == [False]
