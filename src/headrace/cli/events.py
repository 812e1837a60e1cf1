"""`headrace events`: what happened to objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from headrace.api.formats import format_age
from headrace.api.kinds import KINDS
from headrace.api.printing import align
from headrace.api.times import parse_time
from headrace.cli import backend, printer
from headrace.errors import ConfigError
from headrace.local.messages import EventLine, Named


def run(
    about: Annotated[
        str | None, typer.Option("--for", metavar="KIND/NAME", help="Of one object: dataset/imagenet.")
    ] = None,
    namespace: backend.Namespace = None,
    all_namespaces: backend.AllNamespaces = False,
) -> None:
    """Show what happened to declared objects, the latest last."""
    where = None if all_namespaces else namespace or backend.DEFAULT_NAMESPACE
    lines = backend.client().events(namespace=where, about=_named(about, where))
    if not lines:
        printer.say("No events found" + ("." if where is None else f" in {where} namespace."))
        return
    now, head = datetime.now(UTC), ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    rows = [_row(line, now, with_namespace=all_namespaces) for line in lines]
    printer.data(align([["NAMESPACE", *head] if all_namespaces else head, *rows]))


def _named(about: str | None, where: str | None) -> Named | None:
    if about is None:
        return None
    (asked,) = backend.asked_for([about], command="events --for")
    if len(asked.names) != 1 or len(asked.kinds) != 1:
        raise ConfigError.of(f"'{about}' is not KIND/NAME", hint="headrace events --for dataset/imagenet")
    namespace = (where or backend.DEFAULT_NAMESPACE) if asked.kinds[0].namespaced else ""
    return Named(kind=asked.kinds[0].name, namespace=namespace, name=asked.names[0])


def _row(line: EventLine, now: datetime, *, with_namespace: bool) -> list[str]:
    age = format_age(parse_time(line.last), now)
    if line.count > 1:
        age = f"{age} (x{line.count} over {format_age(parse_time(line.first), now)})"
    cells = [
        age,
        line.type,
        line.reason,
        f"{KINDS[line.object.kind].singular}/{line.object.name}",
        line.message,
    ]
    return [line.object.namespace or backend.DEFAULT_NAMESPACE, *cells] if with_namespace else cells
