"""`-l` and `--field-selector`: which of the objects of a kind a command means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from headrace.api.object_selectors import Selector, parse_selector
from headrace.cli.backend import Asked
from headrace.errors import ConfigError
from headrace.local.protocol.client import LocalClient

Document = dict[str, Any]

Labels = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        metavar="LABELS",
        help="By labels: team=vision, 'tier in (gold,silver)', '!draft'.",
    ),
]
Fields = Annotated[
    str | None,
    typer.Option(
        "--field-selector", metavar="FIELDS", help="By fields: status.phase!=Bound, metadata.name=x."
    ),
]


def selector_of(labels: str | None, fields: str | None, names: Iterable[str] = ()) -> Selector:
    """The selector that was given. Raises `ConfigError` for words that are no selector, and beside names."""
    selector = parse_selector(labels, fields)
    if selector and any(names):
        raise ConfigError.of(
            "objects are named, or selected, not both", hint="leave the names or the selector out"
        )
    return selector


def names_in(asked: Iterable[Asked]) -> list[str]:
    """All names that were said."""
    return [name for each in asked for name in each.names]


def selected(client: LocalClient, kind: str, namespace: str | None, selector: Selector) -> list[Document]:
    """The objects of one kind that are meant."""
    items = client.objects([kind], namespace=namespace).items
    return [item for item in items if selector.fits(item)]
