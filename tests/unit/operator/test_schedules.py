"""Operations with a schedule: each run is a Job of its own, at its minute, and what was missed is made up for once."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from operator_context import OperatorWorld
from planned import SEED

BEGIN = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
MIGRATE = {
    "apiVersion": "data.fluid.io/v1alpha1",
    "kind": "DataMigrate",
    "metadata": {"name": "daily", "namespace": "default", "annotations": {}},
    "spec": {
        "from": {"dataset": {"name": "imagenet", "namespace": "default"}},
        "to": {"externalStorage": {"uri": "oss://copies.oss-cn-shanghai.aliyuncs.com/daily"}},
        "policy": "Cron",
        "schedule": "*/10 * * * *",
    },
}


class Clock:
    """A world whose time is told, and its scheduled copy."""

    def __init__(self, world: OperatorWorld, **spec: Any) -> None:
        self.world = world
        world.now = BEGIN + timedelta(minutes=1)
        world.declare(SEED)
        world.settle()
        operation = {**MIGRATE, "spec": {**MIGRATE["spec"], **spec}}
        operation["metadata"] = {**MIGRATE["metadata"], "creationTimestamp": "2026-01-31T09:30:30Z"}
        world.declare(yaml.safe_dump(operation))
        self.pass_to(1)

    def pass_to(self, minute: int) -> None:
        """The clock shows another minute, and the operator looks."""
        self.world.now = BEGIN + timedelta(minutes=minute)
        for _ in range(4):
            self.world.reconcile()

    def end(self, phase: str = "Succeeded") -> None:
        """The copy that runs ends."""
        self.world.cluster.job_pods = {"phase": phase}
        for _ in range(3):
            self.world.reconcile()
        self.world.cluster.job_pods = {"phase": "Running"}

    @property
    def runs(self) -> list[int]:
        """The minutes of the Jobs that are there."""
        names = [job["metadata"]["name"] for job in self.world.cluster.of("Job")]
        moments = [int(re.findall(r"\d{10}$", name)[0]) for name in names]
        return [round((moment - BEGIN.timestamp()) / 60) for moment in sorted(moments)]

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.world.get("DataMigrate", "daily")["status"])


@pytest.fixture
def clock(world: OperatorWorld) -> Clock:
    return Clock(world)


def test_nothing_runs_before_its_minute(clock: Clock) -> None:
    assert (clock.status["phase"], clock.runs) == ("Pending", [])
    clock.pass_to(9)
    assert clock.runs == []
    clock.pass_to(10)
    assert (clock.status["phase"], clock.runs) == ("Executing", [10])
    assert clock.status["lastScheduleTime"] == "2026-01-31T09:40:00Z"


def test_a_run_takes_the_place_of_the_one_before(clock: Clock) -> None:
    clock.pass_to(10)
    clock.end()
    assert clock.status["phase"] == "Complete"
    assert clock.status["lastSuccessfulTime"]
    clock.pass_to(20)
    assert (clock.status["phase"], clock.runs) == ("Executing", [20])


def test_a_run_that_takes_long_is_not_doubled_and_one_missed_run_follows(clock: Clock) -> None:
    clock.pass_to(10)
    for minute in (20, 30, 35):
        clock.pass_to(minute)
        assert clock.runs == [10]
    clock.end()
    clock.pass_to(36)
    assert clock.runs == [30]


def test_a_run_that_failed_says_so_and_the_next_one_begins_all_the_same(clock: Clock) -> None:
    clock.pass_to(10)
    clock.end("Failed")
    assert clock.status["phase"] == "Failed"
    clock.pass_to(20)
    conditions = {each["type"]: each["status"] for each in clock.status["conditions"]}
    assert (clock.status["phase"], clock.runs, conditions["Failed"]) == ("Executing", [20], "False")


@pytest.mark.parametrize("minute", [15, 45])
def test_an_operator_that_was_away_makes_up_for_the_last_run_alone(clock: Clock, minute: int) -> None:
    clock.world.now = BEGIN + timedelta(minutes=minute)
    clock.world.restart()
    clock.pass_to(minute)
    assert clock.runs == [minute // 10 * 10]


def test_another_operator_goes_on_with_the_run_that_is_under_way(clock: Clock) -> None:
    clock.pass_to(10)
    (job,) = clock.world.cluster.of("Job")
    clock.world.restart()
    clock.pass_to(12)
    assert [each["metadata"]["uid"] for each in clock.world.cluster.of("Job")] == [job["metadata"]["uid"]]


def test_a_schedule_that_is_never_due_fails_at_once(world: OperatorWorld) -> None:
    clock = Clock(world, schedule="0 0 30 2 *")
    (condition,) = [each for each in clock.status["conditions"] if each["type"] == "Failed"]
    assert (clock.status["phase"], condition["reason"]) == ("Failed", "ScheduleNeverDue")
