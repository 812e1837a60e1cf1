"""`headrace describe`: all that is known of objects, and what happened to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headrace.api.describing import EventRow, describe_text
from headrace.api.times import parse_time
from headrace.cli import backend, printer, undeclared
from headrace.cli.selector_options import Fields, Labels, names_in, selector_of
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import EventLine, Named


def run(
    resources: backend.Resources = None,
    namespace: backend.Namespace = None,
    all_namespaces: backend.AllNamespaces = False,
    labels: Labels = None,
    fields: Fields = None,
) -> None:
    """Show everything about declared objects, with their events; or about nodes."""
    where = None if all_namespaces else namespace or backend.DEFAULT_NAMESPACE
    client = backend.client()
    if (others := undeclared.asked_for(resources)) is not None:
        kind, names = others
        selector = selector_of(labels, fields, names)
        things = undeclared.documents_of(kind, names, client.status(), where, selector)
        printer.data("\n\n\n".join(describe_text(each, [], datetime.now(UTC)) for each in things))
        return
    asked = backend.asked_for(resources, command="describe")
    selector = selector_of(labels, fields, names_in(asked))
    documents = [
        document
        for each in asked
        for document in client.objects(each.kind_names, namespace=where, names=each.names).items
        if selector.fits(document)
    ]
    if not documents:
        printer.say("No resources found" + ("" if where is None else f" in {where} namespace."))
        return
    now = datetime.now(UTC)
    texts = [describe_text(document, _events(client, document), now) for document in documents]
    printer.data("\n\n\n".join(texts))
    backend.warn_of_odd(documents)


def _events(client: LocalClient, document: dict[str, Any]) -> list[EventRow]:
    metadata = document["metadata"]
    about = Named(kind=document["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])
    # What happened before it was made happened to another object of its name.
    since = parse_time(metadata["creationTimestamp"]) if "creationTimestamp" in metadata else None
    rows = [_row(line) for line in client.events(about=about)]
    return [row for row in rows if since is None or row.last >= since]


def _row(line: EventLine) -> EventRow:
    return EventRow(
        line.type,
        line.reason,
        line.message,
        line.source,
        line.count,
        parse_time(line.first),
        parse_time(line.last),
    )
