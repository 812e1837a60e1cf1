"""What stands in annotations that whoever owns the object may write: followed where it makes sense, no further."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Any

import pytest
from operator_context import OperatorWorld
from planned import objects

from headrace.control.client import ControlClient
from headrace.errors import MissingFileError
from headrace.operations.run_notes import Note
from headrace.operator.operations.backup_driver import _kept_bytes
from headrace.operator.operations.job_driver import NOTE_ANNOTATION

LOAD = """
apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata: {name: load, namespace: team}
spec: {dataset: {name: own, namespace: team}}
"""


@pytest.mark.parametrize(
    ("details", "is_followed"),
    [
        ({"cluster": "team/own", "loads": ["x"]}, True),
        ({}, True),
        ({"cluster": "default/secret", "loads": ["x"]}, False),
        ({"cluster": ["team/own"], "loads": ["x"]}, False),
        ({"cluster": "team/own", "loads": [1]}, False),
        ({"cluster": "team/own", "loads": "x"}, False),
    ],
)
def test_a_note_leads_to_masters_of_its_namespace_alone(
    world: OperatorWorld, details: dict[str, Any], is_followed: bool
) -> None:
    note = Note("load", "once", "2026-01-31T09:30:00Z", details=details)
    (operation,) = objects(LOAD)
    operation.metadata.annotations[NOTE_ANNOTATION] = json.dumps(asdict(note))
    found = world.work.notes.find(operation)
    assert (found == note) is is_followed
    assert (found is None) is not is_followed


@pytest.mark.parametrize("load", ["../refresh", "x/../../drain", "", "a?b", "x" * 64])
def test_the_name_of_a_load_leads_nowhere_else(load: str) -> None:
    async def run() -> None:
        async with ControlClient("http://127.0.0.1:1", None) as client:
            for ask in (client.load, client.cancel_load):
                with pytest.raises(MissingFileError):
                    await ask(load)

    asyncio.run(run())


@pytest.mark.parametrize(
    "said", ["", "[]", '{"kept_bytes": Infinity}', '{"kept_bytes": -1}', '{"kept_bytes": "x"}']
)
def test_the_last_words_of_a_backup_are_a_number_or_nothing(said: str) -> None:
    assert _kept_bytes(said) == 0
    assert _kept_bytes('{"kept_bytes": 7}') == 7


@pytest.mark.parametrize(
    "fields",
    [{"details": [1]}, {"started": "yesterday"}, {"run": 1}, {"ended": "x"}, {"fault": {}}],
)
def test_a_note_that_is_not_ours_is_none(fields: dict[str, Any]) -> None:
    note = Note(**{"kind": "load", "run": "once", "started": "2026-01-31T09:30:00Z", **fields})
    try:
        assert not note.is_sound
    except ValueError:
        return
