from __future__ import annotations

from dataclasses import replace

import pytest
from experiment.data import DataPlan
from experiment.plan import Bound, Plan, Shape, Way, bench_plan, bound, demo_plan, ranks_per_machine
from hypothesis import given
from hypothesis import strategies as st

SMALL, LARGE = Shape(1, epochs=2), Shape(4, epochs=2)
MEGABYTES = 350_000_000
# 512 images/s on one machine of 8, and a link that gives 1 MB/s.
PLAN = Plan(DataPlan(images=1024, shards=4), 8_000_000, slowdown=1, batch_size=8)

plans = st.builds(
    Plan,
    st.builds(DataPlan, images=st.integers(64, 100_000), shards=st.integers(1, 50)),
    st.integers(10**6, 10**10),
    slowdown=st.floats(0.1, 100),
    batch_size=st.integers(1, 256),
)


def test_shapes_of_as_many_epochs_train_the_same_images() -> None:
    assert PLAN.steps(SMALL) == 32
    assert PLAN.steps(LARGE) == 8
    assert PLAN.steps(SMALL) * PLAN.images_per_step(SMALL) == PLAN.steps(LARGE) * PLAN.images_per_step(LARGE)


def test_the_marked_step_is_as_far_in_as_the_thousandth_of_the_seeds() -> None:
    long = replace(PLAN, data=DataPlan(images=1_281_167, shards=1024), batch_size=256)
    small, large = replace(SMALL, epochs=90), replace(LARGE, epochs=90)
    # The seeds' own sizes give, within a thousandth, the seeds' own steps.
    assert (long.steps(small), long.steps(large)) == (56_301, 14_075)
    assert (long.marked_step(small), long.marked_step(large)) == (1000, 1000)
    assert PLAN.marked_step(LARGE) == 1


@pytest.mark.parametrize(
    ("way", "link_bits_per_s", "time_s"),
    [
        (Way.STRAIGHT, 8_000_000, 20.0),
        (Way.COLD, 8_000_000, 10.0),
        (Way.WARM, 8_000_000, PLAN.step_s * 8),
        (Way.STRAIGHT, 8 * 10**12, PLAN.step_s * 8),
        (Way.COLD, 8 * 10**12, PLAN.step_s * 8),
    ],
)
def test_a_run_is_bound_by_the_slower_of_accelerators_and_link(
    way: Way, link_bits_per_s: int, time_s: float
) -> None:
    plan = replace(PLAN, link_bits_per_s=link_bits_per_s)
    assert bound(plan, LARGE, way, training_bytes=10_000_000).time_s == pytest.approx(time_s)


@given(plans, st.sampled_from([1, 4]), st.integers(1, 100), st.integers(1, 10**12))
def test_more_reading_over_the_link_never_bounds_less(
    plan: Plan, machines: int, epochs: int, size_bytes: int
) -> None:
    shape = Shape(machines, epochs=epochs)
    straight, cold, warm = (bound(plan, shape, way, training_bytes=size_bytes) for way in Way)
    assert straight.time_s >= cold.time_s >= warm.time_s == pytest.approx(plan.steps(shape) * plan.step_s)
    assert straight.images_per_s <= warm.images_per_s == cold.images_per_s


@pytest.mark.parametrize("plan", [demo_plan(), bench_plan()])
def test_the_link_feeds_one_machine_and_starves_four(plan: Plan) -> None:
    size_bytes = plan.data.images * 109_000
    small, large = plan.shapes
    warm = {shape: bound(plan, shape, Way.WARM, training_bytes=size_bytes).time_s for shape in plan.shapes}
    straight = {
        shape: bound(plan, shape, Way.STRAIGHT, training_bytes=size_bytes).time_s for shape in plan.shapes
    }
    assert straight[small] == warm[small]
    # 1.47 in the articles, more being fetched there than the bound allows for; a slower link would flatter us.
    assert 1.25 * warm[large] < straight[large] < 1.47 * warm[large]
    # What is fetched once hides behind the accelerators.
    assert bound(plan, large, Way.COLD, training_bytes=size_bytes).time_s == warm[large]


def test_the_table_that_make_demo_shows_leaves_most_of_ten_minutes_for_the_build() -> None:
    plan = demo_plan()
    size_bytes = plan.data.images * 109_000
    shape = plan.shapes[-1]
    assert shape.name == "4x8"
    assert 90 < sum(bound(plan, shape, way, training_bytes=size_bytes).time_s for way in Way) < 130


def test_excess_is_a_share_of_the_bound() -> None:
    assert Bound(10.0, 1.0).excess(10.2) == pytest.approx(0.02)


@pytest.mark.parametrize(("cores", "ranks"), [(2, 1), (16, 1), (63, 1), (64, 8), (128, 8)])
def test_each_accelerator_has_a_rank_of_its_own_where_cores_suffice(cores: int, ranks: int) -> None:
    assert ranks_per_machine(cores, LARGE, nodes=4) == ranks
