"""The annotation that a job's data cost is kept in between two passes of a keeper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_objects import mpijob

from headrace.jobs.data_cost import Counters, Metering, Reading
from headrace.kubeflow.meters import metering_of, text_of
from headrace.kubeflow.names import DATA_COST_ANNOTATION


def reading(source: str, life: str = "a", *, before: bool = True, **counters: float) -> Reading:
    return Reading(source, life, Counters(**counters), before)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000)), min_size=1, max_size=20),
    st.integers(0, 19),
)
def test_a_keeper_that_is_started_again_goes_on_with_the_same_numbers(
    reads: list[tuple[int, int]], restart: int
) -> None:
    """The annotation is all that the next one has."""
    counted = dict.fromkeys(range(4), 0)
    whole = broken = Metering()
    for step, (source, grown) in enumerate(reads):
        counted[source] += grown
        seen = [reading(f"imagenet/mount/{source}", read_bytes=counted[source])]
        whole, broken = whole.read(seen, is_shared=False), broken.read(seen, is_shared=False)
        if step == restart:
            broken = metering_of(mpijob(annotations={DATA_COST_ANNOTATION: text_of(broken)}))
    assert broken.cost == whole.cost


def test_the_end_is_kept_without_the_counters() -> None:
    metering = Metering().read([reading("m", before=False, read_bytes=5)], is_shared=True).closed()
    text = text_of(metering)
    assert '"meters":{}' in text
    again = metering_of(mpijob(annotations={DATA_COST_ANNOTATION: text}))
    assert again.is_final
    assert again.cost == metering.cost
    assert again.cost is not None
    assert again.cost.is_shared


@pytest.mark.parametrize("text", ["", "x", "[]", '{"version":2}', '{"version":2,"meters":{"a":[1]}}'])
def test_an_annotation_that_makes_no_sense_is_none(text: str) -> None:
    assert metering_of(mpijob(annotations={DATA_COST_ANNOTATION: text})).cost is None
