"""`headrace apply` and `headrace create`: objects of files, declared to the local backend."""

from __future__ import annotations

from typing import Literal

from headrace.api.writing import content_of
from headrace.cli import backend
from headrace.local.messages import Declaration


def run(filename: backend.NeededFiles, namespace: backend.Namespace = None) -> None:
    """Declare the objects of files: make those that are not there, change those that differ."""
    _declare("apply", filename, namespace)


def create(filename: backend.NeededFiles, namespace: backend.Namespace = None) -> None:
    """Make the objects of files; one that is there already is an error."""
    _declare("create", filename, namespace)


def _declare(verb: Literal["apply", "create"], files: list[str], namespace: str | None) -> None:
    things = backend.read_files(files, namespace)
    documents = tuple(content_of(thing, reveal_secrets=True) for thing in things)
    where = namespace or backend.DEFAULT_NAMESPACE
    backend.tell(backend.client().declare(Declaration(verb=verb, namespace=where, objects=documents)))
