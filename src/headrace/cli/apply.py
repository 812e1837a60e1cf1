"""`headrace apply` and `headrace create`: objects of files, declared to the local backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from headrace.api.writing import content_of
from headrace.cli import backend
from headrace.cli.objects_from_words import Contents, Literals, Words, object_of_words
from headrace.errors import ConfigError
from headrace.local.protocol.messages import Declaration

if TYPE_CHECKING:
    from headrace.api.kinds import Object


def run(filename: backend.NeededFiles, namespace: backend.Namespace = None) -> None:
    """Declare the objects of files: make those that are not there, change those that differ."""
    _declare("apply", backend.read_files(filename, namespace), namespace)


def create(
    words: Words = None,
    filename: backend.Files = None,
    namespace: backend.Namespace = None,
    from_literal: Literals = None,
    from_file: Contents = None,
) -> None:
    """Make the objects of files, or a Secret or ConfigMap of words; one that is there already is an error."""
    if words and not filename:
        thing = object_of_words(words, from_literal or (), from_file or ())
        _declare("create", [thing], namespace)
    elif filename and not words and not from_literal and not from_file:
        _declare("create", backend.read_files(filename, namespace), namespace)
    else:
        raise ConfigError.of(
            "what shall be made?", hint="headrace create -f FILE, or create secret generic NAME --from-file …"
        )


def _declare(verb: Literal["apply", "create"], things: Sequence[Object], namespace: str | None) -> None:
    documents = tuple(content_of(thing, reveal_secrets=True) for thing in things)
    where = namespace or backend.DEFAULT_NAMESPACE
    backend.tell(backend.client().declare(Declaration(verb=verb, namespace=where, objects=documents)))
