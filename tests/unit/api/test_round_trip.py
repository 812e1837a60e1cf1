from __future__ import annotations

from typing import Any

import pytest
from api_objects import objects
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.api.kinds import KINDS
from headrace.api.manifests import object_of, read_objects
from headrace.api.writing import content_of
from headrace.settings.yaml_streams import write_stream

OURS = [name for name, kind in KINDS.items() if not kind.is_core]


@pytest.mark.parametrize("name", OURS)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
@given(data=st.data())
def test_what_is_declared_is_written_as_it_was_and_read_again(name: str, data: Any) -> None:
    content = data.draw(objects(name))
    thing = object_of(content)
    assert content_of(thing) == content
    assert read_objects(write_stream([content_of(thing)]), "again") == [thing]
