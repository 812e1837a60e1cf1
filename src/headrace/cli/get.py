"""`headrace get`: declared objects as tables or as they are, once or as they change; and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.api import printing
from headrace.api.kinds import KINDS
from headrace.api.object_selectors import Selector
from headrace.cli import backend, events, printer, undeclared
from headrace.cli.backend import Asked
from headrace.cli.selector_options import Fields, Labels, names_in, selector_of
from headrace.cli.undeclared import Showing
from headrace.cli.views import Output, View, document_view, is_table
from headrace.errors import ConfigError
from headrace.local.protocol.client import LocalClient

Document = dict[str, Any]
_EVENTS = ("event", "events", "ev")


def run(
    resources: backend.Resources = None,
    namespace: backend.Namespace = None,
    all_namespaces: backend.AllNamespaces = False,
    output: Output = None,
    labels: Labels = None,
    fields: Fields = None,
    show_labels: Annotated[bool, typer.Option("--show-labels", help="A column of labels.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with what changes.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="No line of titles.")] = False,
    reveal_secrets: Annotated[
        bool,
        typer.Option("--reveal-secrets", help="Show the values of Secrets, in base64, instead of stars."),
    ] = False,
) -> None:
    """Show declared objects: datasets, runtimes, loads, volumes, Secrets, all; also events, nodes and pods."""
    where = None if all_namespaces else namespace or backend.DEFAULT_NAMESPACE
    if resources and resources[0].lower() in _EVENTS:
        events.show(namespace=where, about=None, selector=selector_of(labels, fields, resources[1:]))
        return
    if (others := undeclared.asked_for(resources)) is not None:
        showing = Showing(where, output, with_headers=not no_headers, with_labels=show_labels)
        _show_undeclared(*others, selector_of(labels, fields, others[1]), showing, watch=watch)
        return
    view = _view(output, with_namespace=all_namespaces, with_headers=not no_headers, with_labels=show_labels)
    client, asked = backend.client(), backend.asked_for(resources, command="get")
    selector = selector_of(labels, fields, names_in(asked))
    documents: list[Document] = []
    version = 0
    for each in asked:
        listing = client.objects(
            each.kind_names, namespace=where, names=each.names, reveal_secrets=reveal_secrets
        )
        documents += [item for item in listing.items if selector.fits(item)]
        version = version or listing.resource_version
    is_one = len(asked) == 1 and len(asked[0].names) == 1
    if documents:
        printer.data(view.all(documents, is_one and not watch))
        backend.warn_of_odd(documents)
    elif not watch:
        _tell_nothing(where)
        return
    if watch:
        _follow(client, asked, where, version, view, selector)


def _tell_nothing(where: str | None) -> None:
    printer.say("No resources found" + ("" if where is None else f" in {where} namespace."))


def _show_undeclared(
    kind: undeclared.UndeclaredKind,
    names: tuple[str, ...],
    selector: Selector,
    showing: Showing,
    *,
    watch: bool,
) -> None:
    if watch:
        raise ConfigError.of(
            f"{kind.words[1]} cannot be watched", hint=f"watch -n1 headrace get {kind.words[1]}"
        )
    status = backend.client().status()
    documents = undeclared.documents_of(kind, names, status, showing.namespace, selector)
    if documents:
        printer.data(undeclared.text_of(kind, documents, showing, is_one=len(names) == 1))
    else:
        _tell_nothing(showing.namespace if kind.namespaced else None)


class TableView(View):
    """Tables; a later line stands under the titles of the first ones."""

    def __init__(self, *, wide: bool, with_namespace: bool, with_headers: bool, with_labels: bool) -> None:
        super().__init__(lambda documents, _: self._tables(documents))
        self._options = {"wide": wide, "with_namespace": with_namespace, "with_labels": with_labels}
        self._with_headers = with_headers
        self._rows: list[list[str]] = []

    def another(self, document: Document) -> str:
        """One line."""
        is_first = not self._rows
        if is_first:
            self._rows = [printing.header(KINDS[document["kind"]], **self._options)]
        row = printing.row(document, datetime.now(UTC), **self._options)
        lines = printing.align([*self._rows, row]).splitlines()
        return "\n".join(lines) if is_first and self._with_headers else lines[-1]

    def _tables(self, documents: list[Document]) -> str:
        now = datetime.now(UTC)
        text = printing.get_text(documents, now, **self._options)
        head = printing.header(KINDS[documents[0]["kind"]], **self._options)
        self._rows = [head, *(printing.row(document, now, **self._options) for document in documents)]
        return text if self._with_headers else "\n\n".join(_headless(text))


def _headless(text: str) -> Iterator[str]:
    for table in text.split("\n\n"):
        yield table.partition("\n")[2]


def _view(output: str | None, *, with_namespace: bool, with_headers: bool, with_labels: bool) -> View:
    if not is_table(output):
        return document_view(output or "", _name)
    return TableView(
        wide=output == "wide",
        with_namespace=with_namespace,
        with_headers=with_headers,
        with_labels=with_labels,
    )


def _follow(
    client: LocalClient, asked: list[Asked], where: str | None, version: int, view: View, selector: Selector
) -> None:
    kinds = [kind for each in asked for kind in each.kind_names]
    names = [name for each in asked for name in each.names]
    for change in client.watch(kinds, since=version, namespace=where, names=names):
        if change is not None and selector.fits(change.object):
            printer.data(view.another(change.object))
            printer.flush()
            backend.warn_of_odd([change.object])


def _name(document: Document) -> str:
    return f"{KINDS[document['kind']].prefix}/{document['metadata']['name']}"
