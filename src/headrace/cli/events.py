"""`headrace events`: what happened to objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.api.formats import format_age
from headrace.api.kinds import KINDS
from headrace.api.object_selectors import Selector
from headrace.api.printing import align
from headrace.api.times import parse_time
from headrace.cli import backend, printer
from headrace.cli.selector_options import Fields, Labels, selector_of
from headrace.errors import ConfigError
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import EventLine, Named


def run(
    about: Annotated[
        str | None, typer.Option("--for", metavar="KIND/NAME", help="Of one object: dataset/imagenet.")
    ] = None,
    namespace: backend.Namespace = None,
    all_namespaces: backend.AllNamespaces = False,
    labels: Labels = None,
    fields: Fields = None,
    types: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Only Normal, or only Warning events.")
    ] = None,
) -> None:
    """Show what happened to declared objects, the latest last."""
    where = None if all_namespaces else namespace or backend.DEFAULT_NAMESPACE
    selector = selector_of(labels, fields)
    show(namespace=where, about=_named(about, where), selector=selector, types=types)


def show(*, namespace: str | None, about: Named | None, selector: Selector, types: str | None = None) -> None:
    """Writes the table. The selector's labels are those of the objects, its fields those of the events."""
    where, client, all_namespaces = namespace, backend.client(), namespace is None
    wanted = {each.capitalize() for each in (types or "").split(",") if each}
    lines = [
        line
        for line in client.events(namespace=where, about=about)
        if (not wanted or line.type in wanted)
        and all(each.holds(_document(line)) for each in selector.fields)
    ]
    if selector.labels:
        meant = _labelled(client, where, selector)
        lines = [
            line for line in lines if (line.object.kind, line.object.namespace, line.object.name) in meant
        ]
    if not lines:
        printer.say("No events found" + ("." if where is None else f" in {where} namespace."))
        return
    now, head = datetime.now(UTC), ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    rows = [_row(line, now, with_namespace=all_namespaces) for line in lines]
    printer.data(align([["NAMESPACE", *head] if all_namespaces else head, *rows]))


def _document(line: EventLine) -> dict[str, Any]:
    """The event as Kubernetes would have it, as far as selectors go."""
    return {
        "type": line.type,
        "reason": line.reason,
        "metadata": {"namespace": line.object.namespace},
        "involvedObject": line.object.model_dump(),
    }


def _labelled(client: LocalClient, where: str | None, selector: Selector) -> set[tuple[str, str, str]]:
    items = client.objects(list(KINDS), namespace=where).items
    return {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        for item in items
        if selector.fits_labels(item["metadata"].get("labels") or {})
    }


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
