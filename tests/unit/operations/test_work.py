"""Work for operations: ordered once a run, again where it could not begin, and forgotten in time; on both backends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from operator_context import OperatorWorld
from planned import objects

from headrace.api.kinds import Operation
from headrace.errors import BusyError, ConfigError, HeadraceError, OriginUnreachableError
from headrace.kube.client import KubeClient
from headrace.local.operations.job_driver import RunNotes
from headrace.local.store.database import Database
from headrace.operations.run_notes import Note
from headrace.operations.work import Notes, Work
from headrace.operator.operations.job_driver import AnnotatedNotes
from headrace.plan.job_specs import CopyJob, CopyPlace, Job, LoadJob
from headrace.plan.operation_inputs import JobFacts, JobState

LOAD = """
apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata: {name: warm, namespace: default, uid: u-1}
spec: {dataset: {name: imagenet, namespace: default}}
"""
ORDER = LoadJob("default/imagenet", (), refresh=False, pin=False)
COPY = CopyJob(CopyPlace("default/imagenet"), CopyPlace(), 1)


@dataclass
class Driver:
    """Begins as it is told to, and says what was done to it."""

    fault: BaseException | None = None
    tells: JobState | None = None
    leaves_nothing: bool = False
    said: list[str] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)

    async def begin(self, _task: object, _job: object, note: Note) -> Note:
        self.said.append("begin")
        self.kept.append(dict(note.details))
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        return note.with_details(home="node-1")

    async def facts(self, _operation: Operation, note: Note) -> JobFacts | None:
        return note.facts(self.tells) if self.tells else None

    async def cancel(self, _operation: Operation, _note: Note) -> bool:
        self.said.append("cancel")
        return self.leaves_nothing

    async def forget(self, _operation: Operation, _note: Note) -> None:
        self.said.append("forget")


@dataclass
class Place:
    """The notes of a backend, and how an operation is read there."""

    notes: Notes
    operation: Callable[[], Operation]


@pytest.fixture(params=["local", "Kubernetes"])
def place(request: pytest.FixtureRequest, tmp_path: Path, world: OperatorWorld) -> Place:
    if request.param == "local":
        (operation,) = objects(LOAD)
        return Place(RunNotes(Database(tmp_path / "db")), lambda: cast("Operation", operation))
    world.declare(LOAD)

    def read() -> Operation:
        content = {**world.cluster.objects[("DataLoad", "default", "warm")]}
        return cast("Operation", objects(yaml.safe_dump(content))[0])

    return Place(AnnotatedNotes(cast("KubeClient", world.cluster)), read)


def run(place: Place, driver: Driver, scenario: Callable[[Work[str]], Awaitable[None]]) -> Work[str]:
    work: Work[str] = Work({"load": driver, "copy": driver}, place.notes, logging.getLogger("test"))
    asyncio.run(cast("Any", scenario(work)))
    return work


async def ordered(work: Work[str], operation: Operation, name: str = "once", job: Job = ORDER) -> None:
    work.start(operation, "task", name, job)
    await asyncio.gather(*work._starting.values())


def test_work_is_ordered_once_and_goes_on_with_whoever_comes_next(place: Place) -> None:
    driver = Driver(tells=JobState.RUNNING)

    async def scenario(work: Work[str]) -> None:
        assert await work.facts(place.operation()) is None
        work.start(place.operation(), "task", "once", ORDER)
        await asyncio.sleep(0)
        work.start(place.operation(), "task", "once", ORDER)
        facts = await work.facts(place.operation())
        assert facts is not None and facts.state is JobState.STARTING
        await asyncio.gather(*work._starting.values())

    async def afterwards(work: Work[str]) -> None:
        facts = await work.facts(place.operation())
        assert facts is not None and (facts.run, facts.state) == ("once", JobState.RUNNING)

    run(place, driver, scenario)
    run(place, driver, afterwards)
    assert driver.said == ["begin"]


@pytest.mark.parametrize("fault", [BusyError.of("no list yet"), OriginUnreachableError.of("no answer")])
def test_work_that_cannot_begin_yet_says_why_and_is_ordered_again(place: Place, fault: HeadraceError) -> None:
    driver = Driver(fault=fault)

    async def scenario(work: Work[str]) -> None:
        await ordered(work, place.operation())
        first = place.notes.find(place.operation())
        assert await work.facts(place.operation()) is None
        assert work.hindrance(place.operation()) == fault.message
        driver.fault = None
        await ordered(work, place.operation())
        second = place.notes.find(place.operation())
        assert first is not None and second is not None
        assert (first.started, second.details) == (second.started, {"home": "node-1"})
        assert work.hindrance(place.operation()) == ""

    run(place, driver, scenario)


@pytest.mark.parametrize(
    ("fault", "said"), [(ConfigError.of("no such key"), "no such key"), (KeyError("x"), "a fault of its own")]
)
def test_work_that_can_never_begin_has_failed(place: Place, fault: Exception, said: str) -> None:
    async def scenario(work: Work[str]) -> None:
        await ordered(work, place.operation())
        facts = await work.facts(place.operation())
        assert facts is not None and facts.state is JobState.FAILED
        assert said in facts.message

    run(place, Driver(fault=fault), scenario)


@pytest.mark.parametrize(("job", "kept"), [(ORDER, {}), (COPY, {"home": "node-1"})])
def test_the_next_run_of_a_copy_alone_knows_where_the_last_one_was(
    place: Place, job: Job, kept: dict[str, str]
) -> None:
    driver = Driver()

    async def scenario(work: Work[str]) -> None:
        for name in ("1", "2"):
            await ordered(work, place.operation(), name, job)

    run(place, driver, scenario)
    assert driver.kept == [{}, kept]


def test_what_is_being_ordered_is_over_before_it_is_cancelled(place: Place) -> None:
    driver = Driver()

    async def scenario(work: Work[str]) -> None:
        work.start(place.operation(), "task", "once", ORDER)
        while not driver.said:
            await asyncio.sleep(0)
        await work.cancel(place.operation())
        assert not work._starting

    run(place, driver, scenario)
    assert driver.said == ["begin", "cancel"]


def test_work_of_which_nothing_is_left_is_forgotten(place: Place) -> None:
    driver = Driver(leaves_nothing=True)

    async def scenario(work: Work[str]) -> None:
        await ordered(work, place.operation())
        await work.cancel(place.operation())

    run(place, driver, scenario)
    assert driver.said == ["begin", "cancel", "forget"]
