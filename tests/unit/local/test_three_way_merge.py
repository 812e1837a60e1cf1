"""Three ways become one, as `kubectl apply` does it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.local.store.three_way_merge import three_way_merge
from headrace.merge_patch import difference, patched

values = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
trees = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@pytest.mark.parametrize(
    ("live", "last", "wanted", "merged"),
    [
        ({}, {}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}, {"a": 1}),
        ({"a": 1, "other": 3}, {"a": 1}, {"a": 1}, {"a": 1, "other": 3}),
        ({"a": {"x": 1, "other": 3}}, {"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"y": 2, "other": 3}}),
        ({"a": [1, 2]}, {"a": [1, 2]}, {"a": [2]}, {"a": [2]}),
        ({"a": 1}, {"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": {"x": 1}}, {"a": {"x": 1}}, {"a": 1}, {"a": 1}),
        ({"a": 5}, {"a": 1}, {"a": 1}, {"a": 1}),
        ({}, {"gone": 1}, {}, {}),
    ],
    ids=[
        "new",
        "changed",
        "taken-away",
        "others-stay",
        "deep",
        "lists-whole",
        "to-map",
        "from-map",
        "file-wins",
        "gone",
    ],
)
def test_a_file_changes_what_it_says_and_takes_away_what_it_said(live, last, wanted, merged) -> None:
    assert three_way_merge(live, last, wanted) == merged


@given(trees, trees, trees)
def test_what_was_applied_is_not_changed_by_the_same_again(live, last, wanted) -> None:
    once = three_way_merge(live, last, wanted)
    assert three_way_merge(once, wanted, wanted) == once


@given(trees, trees)
def test_without_others_the_object_is_what_the_file_says(last, wanted) -> None:
    assert three_way_merge(last, last, wanted) == wanted


@given(trees, trees, trees)
def test_all_that_the_file_says_is_in_the_object(live, last, wanted) -> None:
    def holds(object_, said) -> bool:
        if not isinstance(said, dict):
            return object_ == said
        return isinstance(object_, dict) and all(
            k in object_ and holds(object_[k], v) for k, v in said.items()
        )

    assert holds(three_way_merge(live, last, wanted), wanted)


@given(trees, trees)
def test_what_differs_makes_the_one_of_the_other(before: dict[str, object], after: dict[str, object]) -> None:
    assert patched(before, difference(before, after)) == after
    assert difference(after, after) == {}
