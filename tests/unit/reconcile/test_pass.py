"""The rules of a pass, each once: in the plainest world, and with the parts of either backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pass_labs import ELSEWHERE, LOAD, SEED, ClusterLab, Lab, LocalLab, MemoryLab, OutdatedError

from headrace.errors import EngineError
from headrace.plan.observed import Observed, RoleState
from headrace.plan.operation_inputs import JobState

FAULT = EngineError.of("it cannot be done")
ALL = ["master", "mount", "worker"]
BEGIN = ["observe", "others", "reserve", "follow_volume", "write"]


@pytest.fixture(params=["memory", "local", "Kubernetes"])
def lab(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    if request.param == "local":
        return LocalLab(tmp_path, monkeypatch)
    return ClusterLab(monkeypatch) if request.param == "Kubernetes" else MemoryLab()


@pytest.fixture
def served(lab: Lab) -> Lab:
    """A dataset that is served."""
    lab.declare()
    until(lab, lambda: sorted(set(lab.kinds())) == ALL and lab.has_volume())
    looks(lab, 2)
    return lab


def looks(lab: Lab, number: int) -> None:
    for _ in range(number):
        lab.look()


def until(lab: Lab, is_so: Callable[[], bool]) -> None:
    for _ in range(30):
        if is_so():
            return
        lab.look()
    raise AssertionError(f"it does not come to be: {lab.kinds()}")


def kinds(lab: Lab) -> list[str]:
    return sorted(set(lab.kinds()))


def name_another(text: str, name: str) -> str:
    return text.replace("name: warm", f"name: {name}")


# The order


def test_all_that_is_said_is_said_before_a_step_is_taken(lab: Lab) -> None:
    lab.declare()
    lab.look()
    assert lab.spy.trace == [*BEGIN, "take", "finish"]


def test_files_go_before_the_last_word_and_the_volume_before_that(served: Lab) -> None:
    for kind in ("Dataset", "JindoRuntime"):
        served.delete(kind)
    until(served, lambda: not served.kinds())
    served.look()
    order = [each for each in served.spy.trace if each in ("clear", "follow_volume", "write")]
    assert order == ["clear", "follow_volume", "write"]
    until(served, lambda: not served.is_there("Dataset"))
    assert not served.has_volume()


def test_finalizers_stay_while_files_are_left(served: Lab) -> None:
    served.spy.answers["clear"] = lambda _: False
    for kind in ("Dataset", "JindoRuntime"):
        served.delete(kind)
    looks(served, 8)
    assert not served.kinds()
    assert served.is_there("Dataset") and served.is_there("JindoRuntime")
    served.spy.answers.clear()
    until(served, lambda: not served.is_there("Dataset"))


@pytest.mark.parametrize("call", ["clear", "follow_volume"])
def test_finalizers_stay_while_something_cannot_be_taken_away(served: Lab, call: str) -> None:
    for kind in ("Dataset", "JindoRuntime"):
        served.delete(kind)
    until(served, lambda: not served.kinds())
    served.spy.faults[call] = FAULT
    looks(served, 4)
    assert served.is_there("Dataset") and served.is_there("JindoRuntime")
    served.spy.faults.clear()
    until(served, lambda: not served.is_there("Dataset"))


# Faults


@pytest.mark.parametrize("call", ["follow_volume", "write", "take", "finish"])
def test_what_one_part_cannot_do_stops_no_other_and_is_tried_again_soon(lab: Lab, call: str) -> None:
    lab.declare(SEED + "---" + LOAD)
    lab.spy.faults[call] = FAULT
    result = lab.look()
    made = [each for each in lab.spy.trace if each not in ("inputs", "task", "users")]
    told = ["write"] if call == "take" else []
    assert made == [*BEGIN, "take", *told, "write", "finish"]
    assert not result.is_complete
    assert result.requeue_after_s is not None and result.requeue_after_s <= 5.0
    lab.spy.faults.clear()
    until(lab, lambda: kinds(lab) == ALL)


def test_a_part_that_failed_is_tried_again_soon_and_slows_no_other(lab: Lab) -> None:
    lab.declare()
    lab.spy.faults["finish"] = FAULT
    steps_s = lab.look().requeue_after_s
    assert steps_s is not None and steps_s <= 1.0
    lab.spy.faults.clear()
    until(lab, lambda: kinds(lab) == ALL and (lab.look().requeue_after_s or 0.0) > 5.0)
    lab.spy.faults["finish"] = FAULT
    assert lab.look().requeue_after_s == pytest.approx(5.0)


def test_a_fault_of_our_own_stops_no_other_part_and_is_raised_at_the_end(lab: Lab) -> None:
    lab.declare()
    lab.spy.faults["follow_volume"] = KeyError("ours")
    with pytest.raises(KeyError, match="ours"):
        lab.look()
    assert lab.spy.trace[-3:] == ["write", "take", "finish"]


def test_a_step_that_cannot_be_taken_is_told_of(lab: Lab) -> None:
    lab.declare()
    lab.spy.faults["take"] = FAULT
    lab.look()
    assert "StepRefused" in lab.events()


def test_no_step_is_taken_by_what_is_not_there_any_more(lab: Lab) -> None:
    lab.declare()
    lab.spy.faults["write"] = OutdatedError.of("somebody wrote")
    result = lab.look()
    assert "take" not in lab.spy.trace
    assert (result.requeue_after_s, result.is_complete) == (1.0, True)


def test_a_pass_that_ends_well_is_complete_and_comes_again_while_a_role_starts(served: Lab) -> None:
    assert served.look().is_complete

    def starting(seen: Observed) -> Observed:
        first, *rest = seen.roles
        return replace(seen, roles=(replace(first, state=RoleState.STARTING), *rest))

    served.spy.answers["observe"] = starting
    requeue_s = served.look().requeue_after_s
    assert requeue_s is not None and requeue_s <= served.spy.starting_s


# Mounts and volumes that are used


def test_nobody_loses_a_mount_who_came_after_it_was_observed(served: Lab) -> None:
    served.declare(ELSEWHERE)
    served.spy.before["users"] = served.use
    served.look()
    assert "users" in served.spy.trace
    looks(served, 4)
    assert "mount" in served.kinds()
    served.leave()
    until(served, lambda: "mount" not in served.kinds())


def test_no_mount_is_ended_while_nobody_knows_who_uses_it(served: Lab) -> None:
    served.declare(ELSEWHERE)
    served.spy.faults["users"] = FAULT
    looks(served, 4)
    assert "mount" in served.kinds()
    served.spy.faults.clear()
    until(served, lambda: "mount" not in served.kinds())


def test_others_are_seen_right_before_nodes_are_taken(served: Lab) -> None:
    served.declare(ELSEWHERE)
    served.look()
    trace = served.spy.trace
    assert trace.index("reserve") == trace.index("others", trace.index("users")) + 1


def test_what_is_read_goes_on_without_any_declaration_and_ends_with_its_reader(served: Lab) -> None:
    served.use()
    for kind in ("JindoRuntime", "Dataset"):
        served.force_away(kind)
    results = []
    for _ in range(4):
        results.append(served.look())
        assert kinds(served) == ALL and served.has_volume()
    assert results[-1].requeue_after_s == pytest.approx(10.0)
    served.leave()
    ends = []
    for _ in range(12):
        result = served.look()
        ends += [kinds(served)] if kinds(served) not in ends else []
        assert served.has_volume() or not kinds(served)
    assert ends in ([["master", "worker"], ["master"], []], [ALL, ["master", "worker"], ["master"], []])
    assert not served.has_volume()
    assert result.requeue_after_s is None


def test_a_reader_who_comes_late_keeps_what_nobody_declares(served: Lab) -> None:
    for kind in ("JindoRuntime", "Dataset"):
        served.force_away(kind)
    served.spy.before["users"] = served.use
    looks(served, 3)
    assert kinds(served) == ALL


def test_a_volume_that_is_used_stays_without_its_dataset(served: Lab) -> None:
    served.use()
    served.force_away("Dataset")
    looks(served, 4)
    assert kinds(served) == ALL and served.has_volume()


# What makes no sense


@pytest.mark.parametrize("kind", ["Dataset", "JindoRuntime"])
def test_what_makes_no_sense_is_told_of_and_what_runs_goes_on(served: Lab, kind: str) -> None:
    served.declare(LOAD)
    served.spoil(kind)
    looks(served, 4)
    assert kinds(served) == ALL and served.has_volume()
    assert "take" not in served.spy.trace and "inputs" in served.spy.trace
    assert "Refused" in served.reasons("Dataset")


def test_one_thing_at_a_time_is_told_of_a_dataset(served: Lab) -> None:
    for kind in ("Dataset", "JindoRuntime"):
        served.spoil(kind)
    served.look()
    told = [each.about.kind for each in served.spy.written if each.status]
    assert told == ["Dataset"]


def test_a_dataset_that_leaves_says_nothing_else(served: Lab) -> None:
    served.use()
    served.spoil("JindoRuntime")
    served.delete("Dataset")
    looks(served, 2)
    assert [each.about.kind for each in served.spy.written if each.status] == ["Dataset"]
    assert "Refused" not in served.reasons("Dataset")


def test_a_runtime_that_makes_no_sense_may_go_when_nothing_runs_any_more(served: Lab) -> None:
    served.spoil("JindoRuntime")
    served.delete("JindoRuntime")
    while served.kinds():
        assert served.is_there("JindoRuntime")
        served.look()
    until(served, lambda: not served.is_there("JindoRuntime"))
    assert served.is_there("Dataset")


def test_a_dataset_that_makes_no_sense_and_stays_keeps_its_finalizer(served: Lab) -> None:
    served.spoil("Dataset")
    served.delete("JindoRuntime")
    looks(served, 10)
    served.delete("Dataset")
    assert served.is_there("Dataset")
    until(served, lambda: not served.is_there("Dataset"))


def test_the_work_of_an_operation_that_makes_no_sense_is_ended_before_it_goes(served: Lab) -> None:
    served.declare(LOAD)
    until(served, lambda: "begin" in served.driver.said)
    looks(served, 2)
    served.spoil("DataLoad", "warm")
    served.look(served.home_of_odd)
    assert "Refused" in served.reasons("DataLoad", "warm")
    assert "cancel" not in served.driver.said
    served.delete("DataLoad", "warm")
    served.look(served.home_of_odd)
    assert served.driver.said[-2:] == ["cancel", "forget"]
    assert not served.is_there("DataLoad", "warm")


# Operations


def test_how_a_load_stands_is_asked_before_its_dataset_is_observed(served: Lab) -> None:
    served.declare(LOAD)
    until(served, lambda: "begin" in served.driver.said)
    looks(served, 2)
    served.driver.said.clear()
    asked: list[str] = []
    served.spy.before["observe"] = lambda: asked.extend(served.driver.said)
    served.look()
    assert asked == ["facts warm"]


def test_an_operation_that_cannot_be_asked_stops_no_other(served: Lab) -> None:
    served.declare("---".join([LOAD, name_another(LOAD, "other")]))
    until(served, lambda: served.driver.said.count("begin") == 2)
    looks(served, 2)

    def failing(note: object) -> None:
        served.driver.tells = lambda note: note.facts(JobState.COMPLETE)
        raise FAULT

    served.driver.tells = failing
    result = served.look()
    assert not result.is_complete
    told = [served.reasons("DataLoad", name) for name in ("warm", "other")]
    assert sum("DataLoadComplete" in each for each in told) == 1
    assert "take" in served.spy.trace


def test_work_that_goes_on_is_cancelled_and_forgotten_before_its_operation_goes(served: Lab) -> None:
    served.declare(LOAD)
    until(served, lambda: "begin" in served.driver.said)
    looks(served, 2)
    served.delete("DataLoad", "warm")
    served.look()
    assert served.driver.said[-1] == "cancel" and served.is_there("DataLoad", "warm")
    served.driver.tells = lambda _: None
    served.spy.before["write"] = lambda: None
    served.look()
    assert served.driver.said[-1] == "forget"
    assert not served.is_there("DataLoad", "warm")


def test_a_load_whose_time_is_over_is_deleted(served: Lab) -> None:
    load = yaml.safe_load(LOAD)
    load["spec"]["ttlSecondsAfterFinished"] = 0
    served.driver.tells = lambda note: note.facts(JobState.COMPLETE)
    served.declare(yaml.safe_dump(load))
    until(served, lambda: not served.is_there("DataLoad", "warm"))
