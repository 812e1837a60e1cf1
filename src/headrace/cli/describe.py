"""`headrace describe`: all that is known of objects, and what happened to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headrace.api.describing import EventRow, describe_text
from headrace.api.times import parse_time
from headrace.cli import backend, printer
from headrace.local.client import LocalClient
from headrace.local.messages import EventLine, Named


def run(
    resources: backend.Resources = None,
    namespace: backend.Namespace = None,
    all_namespaces: backend.AllNamespaces = False,
) -> None:
    """Show everything about declared objects, with their events."""
    where = None if all_namespaces else namespace or backend.DEFAULT_NAMESPACE
    client = backend.client()
    documents = [
        document
        for asked in backend.asked_for(resources, command="describe")
        for document in client.objects(asked.kind_names, namespace=where, names=asked.names).items
    ]
    if not documents:
        printer.say("No resources found" + ("" if where is None else f" in {where} namespace."))
        return
    now = datetime.now(UTC)
    texts = [describe_text(document, _events(client, document), now) for document in documents]
    printer.data("\n\n\n".join(texts))


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
