"""Who uses datasets: written down, followed, and what was made for it taken away."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.local.nodes.managed_folders import ManagedFolders
from headrace.local.processes.consumers import Consumer, Consumers, read_consumers
from headrace.local.processes.process_tags import end, family
from headrace.local.reconciler import Dataset
from headrace.local.store.database import Database
from headrace.process.stat import started_ticks

KEY = ("default", "imagenet")
DEADLINE_S = 30.0


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "objects.db")
    yield database
    database.close()


def consumers_of(database: Database, changed: list[Dataset] | None = None) -> Consumers:
    def on_change(datasets: Iterable[Dataset]) -> None:
        if changed is not None:
            changed.extend(datasets)

    return Consumers(database, ManagedFolders(database), on_change)


def consumer(name: str, *paths: Path | str, **fields: int) -> Consumer:
    datasets = tuple(KEY for _ in paths)
    return Consumer(name, f"program {name}", "node-1", datasets, tuple(map(str, paths)), **fields)


def test_the_next_one_knows_them(database: Database) -> None:
    changed: list[Dataset] = []
    first = consumer("a", "", pid=5, started_ticks=6)
    consumers_of(database, changed).begin(first)
    again = consumers_of(database)
    assert (again.all(), list(again.of(KEY)), changed) == ([first], [first], [KEY])
    assert first.user == "program a (process 5)"
    again.end("a")
    assert read_consumers(database) == []


def test_folders_are_made_for_a_use_and_go_with_the_last_that_needs_them(
    database: Database, tmp_path: Path
) -> None:
    consumers, there = consumers_of(database), tmp_path / "there"
    there.mkdir()
    consumers.begin(consumer("a", there / "new" / "one"))
    consumers.begin(consumer("b", there / "new"))
    consumers.begin(consumer("c", there))
    consumers.end("a")
    assert (there / "new").is_dir()
    assert not (there / "new" / "one").exists()
    consumers.end("b")
    consumers.end("c")
    assert list(there.iterdir()) == []


def test_what_somebody_put_into_a_folder_stays(database: Database, tmp_path: Path) -> None:
    consumers, path = consumers_of(database), tmp_path / "new"
    consumers.begin(consumer("a", path))
    (path / "kept").write_text("x")
    consumers.end("a")
    assert (path / "kept").read_text() == "x"


def test_a_use_whose_path_cannot_be_had_is_none(database: Database, tmp_path: Path) -> None:
    consumers, file = consumers_of(database), tmp_path / "file"
    file.write_text("x")
    for path in (file, file / "below"):
        with pytest.raises(ConfigError):
            consumers.begin(consumer("a", tmp_path / "made" / "for", path))
    assert (consumers.all(), (tmp_path / "made").exists()) == ([], False)


def test_a_use_ends_with_its_process_and_one_without_goes_on(database: Database) -> None:
    changed: list[Dataset] = []
    consumers = consumers_of(database, changed)

    async def follow() -> None:
        with subprocess.Popen(["sleep", "4326"]) as process:
            consumers.begin(consumer("a", "", pid=process.pid, started_ticks=started_ticks(process.pid) or 0))
            consumers.begin(consumer("b", ""))
            following = asyncio.create_task(consumers.follow())
            process.kill()
            process.wait()
            async with asyncio.timeout(DEADLINE_S):
                while len(consumers.all()) > 1:
                    await asyncio.sleep(0.05)
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following

    asyncio.run(follow())
    assert [each.id for each in consumers.all()] == ["b"]
    assert changed == [KEY] * 3


def test_the_family_of_a_process_is_found_without_a_mark() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 4327 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        ticks = started_ticks(shell.pid) or 0
        found = family(shell.pid, ticks, "run-1")
        assert {each.pid for each in found} == {shell.pid, child}
        assert family(shell.pid, ticks + 1, "run-1") == []
        end(found, signal.SIGKILL)
    assert shell.returncode == -signal.SIGKILL
