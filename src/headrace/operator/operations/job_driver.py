"""A run of an operation on Kubernetes, and its note, an annotation by which the next operator goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from headrace.api.dataset import Dataset
from headrace.api.kinds import Operation
from headrace.errors import MissingFileError
from headrace.kube.client import KubeClient
from headrace.operations.run_notes import Note
from headrace.operator.desired_state import DesiredState
from headrace.operator.observer import Observation

NOTE_ANNOTATION = "headrace.io/work"


@dataclass(frozen=True, slots=True)
class Task:
    """One run of an operation, and what is declared and seen at the moment that it is ordered."""

    operation: Operation
    run: str
    desired: DesiredState
    observation: Observation
    datasets: Mapping[str, Dataset]


@dataclass(frozen=True, slots=True)
class AnnotatedNotes:
    """The notes of operations, each in an annotation of its own operation."""

    client: KubeClient

    def find(self, operation: Operation) -> Note | None:
        """The note of one, as far as it makes sense and leads nowhere else."""
        text = operation.metadata.annotations.get(NOTE_ANNOTATION)
        try:
            note = Note(**json.loads(text)) if text else None
            return note if note is not None and note.is_sound and _stays_at_home(note, operation) else None
        except (ValueError, TypeError):
            # Somebody wrote into it: the work is ordered again, which does nothing twice.
            return None

    async def keep(self, operation: Operation, note: Note) -> None:
        """Writes it down."""
        text = json.dumps(asdict(note))
        body = {"metadata": {"annotations": {NOTE_ANNOTATION: text}, "uid": operation.metadata.uid}}
        try:
            await self.client.patch(operation.kind, operation.namespace or "default", operation.name, body)
        except MissingFileError:
            return

    async def strike(self, operation: Operation) -> None:
        """It goes with its operation."""


def _stays_at_home(note: Note, operation: Operation) -> bool:
    """True when the note leads to no cluster of another namespace: whoever may change the operation may write it, and
    would have us ask the masters of others, with their tokens.
    """
    cluster, loads = note.details.get("cluster", ""), note.details.get("loads", [])
    if not isinstance(cluster, str) or not isinstance(loads, list):
        return False
    own = operation.namespace or "default"
    return cluster.partition("/")[0] in ("", own) and all(isinstance(each, str) for each in loads)
