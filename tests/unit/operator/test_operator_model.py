"""Whatever people, machines and the API server do meanwhile: in the end all is as it is declared, and nothing is left.

A model of everything around the operator. It buys what no table of cases does: orders of events that nobody thought of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operator_model import Model

NUMBERS = st.integers(1, 4)
DATASETS = st.sampled_from(["imagenet", "part", "taken"])
OF_ONE = ("delete_runtime", "invalidate", "keep_off")
OF_ANY = ("create", "delete", "force_away", "harm_token")
OF_MANY = ("scale", "resize", "change_keys", "lose_keys", "lose_node", "find_node", "kill_pod", "kill_pod")
OF_CALLS = ("die_at", "refuse_at", "conflict_at")
STEPS = st.one_of(
    st.tuples(st.sampled_from(OF_ONE), st.just("imagenet")),
    st.tuples(st.sampled_from(OF_ANY), DATASETS),
    st.tuples(st.sampled_from(OF_MANY), NUMBERS),
    st.tuples(st.sampled_from(["use", "leave"]), DATASETS, NUMBERS),
    st.tuples(st.sampled_from(OF_CALLS), st.integers(0, 6)),
    st.tuples(st.sampled_from(["restart", "reconcile", "reconcile_late"])),
)


@pytest.fixture(scope="module")
def begun() -> Iterator[Model]:
    """A world in which all is served and read."""
    with pytest.MonkeyPatch.context() as patches:
        yield Model(patches)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(steps=st.lists(STEPS, min_size=3, max_size=12))
def test_all_comes_to_what_is_declared_and_nothing_is_left(
    begun: Model, steps: list[tuple[Any, ...]]
) -> None:
    with pytest.MonkeyPatch.context() as patches:
        model = Model(patches, begun)
        for what, *given_ in steps:
            getattr(model, what)(*given_)
            model.reconcile()
        model.calm_down()
        model.check_settled()
        model.take_all_away()
        model.check_nothing_is_left()
