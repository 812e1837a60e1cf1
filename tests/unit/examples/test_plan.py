from __future__ import annotations

from dataclasses import replace

import pytest
from experiment.data import DataPlan
from experiment.plan import Bound, Plan, Shape, Way, bench_plan, bound, demo_plan, ranks_per_machine
from hypothesis import given
from hypothesis import strategies as st

SMALL, LARGE = Shape(1), Shape(4)
MEGABYTES = 350_000_000
# 512 images/s on one machine of 8, and a link that gives 1 MB/s.
PLAN = Plan(DataPlan(images=1024, shards=4), 8_000_000, epochs=2, slowdown=1, batch_size=8)

plans = st.builds(
    Plan,
    st.builds(DataPlan, images=st.integers(64, 100_000), shards=st.integers(1, 50)),
    st.integers(10**6, 10**10),
    epochs=st.integers(1, 100),
    slowdown=st.floats(0.1, 100),
    batch_size=st.integers(1, 256),
)


def test_every_shape_trains_the_same_images() -> None:
    assert PLAN.steps(SMALL) == 32
    assert PLAN.steps(LARGE) == 8
    assert PLAN.steps(SMALL) * PLAN.images_per_step(SMALL) == PLAN.steps(LARGE) * PLAN.images_per_step(LARGE)


def test_the_marked_step_is_as_far_in_as_the_thousandth_of_the_seeds() -> None:
    long = replace(PLAN, data=DataPlan(images=1_281_167, shards=1024), epochs=90, batch_size=256)
    # The seeds' own sizes give, within a thousandth, the seeds' own steps.
    assert (long.steps(SMALL), long.steps(LARGE)) == (56_301, 14_075)
    assert (long.marked_step(SMALL), long.marked_step(LARGE)) == (1000, 1000)
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


@given(plans, st.sampled_from([SMALL, LARGE]), st.integers(1, 10**12))
def test_more_reading_over_the_link_never_bounds_less(plan: Plan, shape: Shape, size_bytes: int) -> None:
    straight, cold, warm = (bound(plan, shape, way, training_bytes=size_bytes) for way in Way)
    assert straight.time_s >= cold.time_s >= warm.time_s == pytest.approx(plan.steps(shape) * plan.step_s)
    assert straight.images_per_s <= warm.images_per_s == cold.images_per_s


@pytest.mark.parametrize("plan", [demo_plan(), bench_plan()])
def test_the_link_feeds_one_machine_and_starves_four(plan: Plan) -> None:
    size_bytes = plan.data.images * 109_000
    warm = {shape: bound(plan, shape, Way.WARM, training_bytes=size_bytes).time_s for shape in plan.shapes}
    straight = {
        shape: bound(plan, shape, Way.STRAIGHT, training_bytes=size_bytes).time_s for shape in plan.shapes
    }
    assert straight[SMALL] == warm[SMALL]
    # 1.47 in the articles, more being fetched there than the bound allows for; a slower link would flatter us.
    assert 1.25 * warm[LARGE] < straight[LARGE] < 1.47 * warm[LARGE]
    # What is fetched once hides behind the accelerators.
    assert bound(plan, LARGE, Way.COLD, training_bytes=size_bytes).time_s == warm[LARGE]


def test_the_whole_demo_leaves_time_for_starting_within_fifteen_minutes() -> None:
    plan = demo_plan()
    size_bytes = plan.data.images * 109_000
    total_s = sum(
        bound(plan, shape, way, training_bytes=size_bytes).time_s for shape in plan.shapes for way in Way
    )
    # Data, cluster, datasets and six starts of TensorFlow took 131 s beside it on two cores.
    assert 480 < total_s < 760


def test_excess_is_a_share_of_the_bound() -> None:
    assert Bound(10.0, 1.0).excess(10.2) == pytest.approx(0.02)


@pytest.mark.parametrize(("cores", "ranks"), [(2, 1), (16, 1), (63, 1), (64, 8), (128, 8)])
def test_each_accelerator_has_a_rank_of_its_own_where_cores_suffice(cores: int, ranks: int) -> None:
    assert ranks_per_machine(cores, LARGE, nodes=4) == ranks
