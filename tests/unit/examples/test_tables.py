from __future__ import annotations

from itertools import pairwise

import pytest
from experiment.data import DataPlan
from experiment.plan import Plan, Shape, Way
from experiment.runs import Run
from experiment.tables import disagreements, duration, markdown_of, savings, speed_at, table_of, text_of
from hypothesis import given
from hypothesis import strategies as st

# 32,000 images in 125 steps of 0.288 s on 4x8; the link needs 65 s for them.
PLAN = Plan(DataPlan(images=3200, shards=64), 430_000_000, slowdown=24)
SHAPE = Shape(4, epochs=10)
SIZE_BYTES = 349_000_000


def run_of(way: Way, time_s: float, *, plan: Plan = PLAN, shape: Shape = SHAPE, **more: object) -> Run:
    steps = plan.steps(shape)
    result = {
        "time_s": time_s,
        "steps": steps,
        "images": steps * 256,
        "images_per_step": 256,
        "bytes": 10,
        "waited_s": 1.0,
        "accuracy_5": 0.9,
        "ends_s": [time_s * (step + 1) / steps for step in range(steps)],
        "ranks": 4,
        **more,
    }
    return Run(shape, way, result, {}, 10**9, 5, page_cache_dropped=True)


@pytest.fixture
def runs() -> list[Run]:
    return [run_of(Way.STRAIGHT, 72.0), run_of(Way.COLD, 37.0), run_of(Way.WARM, 36.1)]


def test_a_table_is_that_of_the_seeds_with_bounds_beside(runs: list[Run]) -> None:
    lines = text_of(table_of(PLAN, SHAPE, runs, training_bytes=SIZE_BYTES)).splitlines()
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    assert cells[0] == ["horovod-4x8"]
    assert cells[1] == ["s3fs", "bound", "headrace (cold)", "bound", "headrace (warm)", "bound"]
    assert cells[2] == [
        "Training time",
        "1m12.0s",
        "1m04.9s (+10.9%)",
        "37.0s",
        "36.0s (+2.8%)",
        "36.1s",
        "36.0s (+0.3%)",
    ]
    assert cells[3][:3] == ["Speed at step 9 (images/second)", "444.4", "492.8"]
    assert cells[4][5:] == ["886.4", "888.7"]
    assert cells[5] == ["steps", "125", "125", "125"]
    assert cells[6] == ["Accuracy @ 5", "0.9000", "0.9000", "0.9000"]


def test_the_same_table_is_markdown(runs: list[Run]) -> None:
    lines = markdown_of(table_of(PLAN, SHAPE, runs, training_bytes=SIZE_BYTES)).splitlines()
    assert lines[0].startswith("| horovod-4x8 | s3fs | bound |")
    assert {line.count("|") for line in lines} == {8}


def test_savings_are_reckoned_as_in_the_seeds(runs: list[Run]) -> None:
    said = savings(table_of(PLAN, SHAPE, runs, training_bytes=SIZE_BYTES))
    assert said == [
        "horovod-4x8: headrace (cold) takes 37.0s where s3fs takes 1m12.0s: -49%",
        "horovod-4x8: headrace (warm) takes 36.1s where s3fs takes 1m12.0s: -50%",
    ]


def test_runs_of_other_shapes_are_in_other_tables(runs: list[Run]) -> None:
    assert table_of(PLAN, Shape(1), runs, training_bytes=SIZE_BYTES).columns == ()


def test_ways_that_read_other_bytes_or_learn_otherwise_are_told() -> None:
    same = [run_of(Way.STRAIGHT, 72.0), run_of(Way.WARM, 36.1, accuracy_5=0.905)]
    assert disagreements(table_of(PLAN, SHAPE, same, training_bytes=SIZE_BYTES)) == []
    other = [run_of(Way.STRAIGHT, 72.0), run_of(Way.WARM, 36.1, accuracy_5=0.7, bytes=11)]
    told = disagreements(table_of(PLAN, SHAPE, other, training_bytes=SIZE_BYTES))
    assert [text.split(":")[1].split()[0] for text in told] == ["bytes", "accuracy_5"]


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=60), st.data())
def test_the_speed_at_a_step_is_between_those_of_its_steps(
    durations_s: list[float], data: st.DataObject
) -> None:
    ends_s = [sum(durations_s[: number + 1]) for number in range(len(durations_s))]
    step = data.draw(st.integers(1, len(ends_s)))
    speeds = [1 / (end - start) for start, end in pairwise([0.0, *ends_s[:step]])]
    assert min(speeds) * 0.999 <= speed_at(step, ends_s, 1) <= max(speeds) * 1.001


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (59.94, "59.9s"),
        (59.96, "1m00.0s"),
        (119.99, "2m00.0s"),
        (600, "10m00s"),
        (13750, "3h49m10s"),
    ],
)
def test_durations_are_written_as_in_the_seeds(seconds: float, text: str) -> None:
    assert duration(seconds) == text
