"""The node that a program gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.node_choice import Candidate, choose_node

PLAIN = [Candidate("node-10"), Candidate("node-2")]


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([], None),
        ([Candidate("a", is_ready=False), Candidate("b", is_allowed=False)], None),
        (PLAIN, "node-2"),
        ([Candidate("a"), Candidate("b", workers=1)], "b"),
        ([Candidate("a", workers=1), Candidate("b", workers=1, cached_share=1.0)], "b"),
        ([Candidate("a", workers=1, users=1), Candidate("b", workers=1)], "b"),
        # All of the data is worth a crowd; a little more of it is not.
        ([Candidate("a", cached_share=1.0, users=9), Candidate("b")], "a"),
        ([Candidate("a", cached_share=0.52, users=1), Candidate("b", cached_share=0.48)], "b"),
        ([Candidate("a", cached_share=1.0, is_ready=False), Candidate("b")], "b"),
    ],
)
def test_the_node_with_most_of_the_data_and_fewest_users(
    candidates: list[Candidate], chosen: str | None
) -> None:
    assert choose_node(candidates) == chosen


@given(
    st.lists(
        st.builds(
            Candidate,
            name=st.sampled_from([f"node-{number}" for number in range(9)]),
            is_ready=st.booleans(),
            is_allowed=st.booleans(),
            cached_share=st.floats(0, 1),
            users=st.integers(0, 3),
        ),
        unique_by=lambda each: each.name,
    )
)
def test_the_order_of_nodes_does_not_matter_and_none_is_chosen_that_may_not_be(
    candidates: list[Candidate],
) -> None:
    chosen = choose_node(candidates)
    assert chosen == choose_node(candidates[::-1])
    fitting = {each.name for each in candidates if each.is_ready and each.is_allowed}
    assert chosen in fitting or (chosen is None and not fitting)
