"""`headrace get`: declared objects as tables or as they are, once or as they change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.api import printing
from headrace.api.json_paths import parse_json_path, text_of, value_of
from headrace.api.kinds import kind_of
from headrace.cli import backend, printer
from headrace.cli.backend import Asked
from headrace.errors import ConfigError
from headrace.local.client import LocalClient
from headrace.settings.yaml_streams import write_stream

Document = dict[str, Any]
_FORMATS = "wide, yaml, json, name, jsonpath={.status.phase}"

Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FORMAT", help=f"Instead of a table: {_FORMATS}.")
]


def run(
    resources: backend.Resources = None,
    namespace: backend.Namespace = None,
    all_namespaces: backend.AllNamespaces = False,
    output: Output = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with what changes.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="No line of titles.")] = False,
    reveal_secrets: Annotated[
        bool,
        typer.Option("--reveal-secrets", help="Show the values of Secrets, in base64, instead of stars."),
    ] = False,
) -> None:
    """Show declared objects: datasets, runtimes, loads, volumes, Secrets."""
    where = None if all_namespaces else namespace or backend.DEFAULT_NAMESPACE
    view = _view(output, with_namespace=all_namespaces, with_headers=not no_headers)
    client, asked = backend.client(), backend.asked_for(resources, command="get")
    documents: list[Document] = []
    version = 0
    for each in asked:
        listing = client.objects(
            each.kind_names, namespace=where, names=each.names, reveal_secrets=reveal_secrets
        )
        documents += listing.items
        version = version or listing.resource_version
    is_one = len(asked) == 1 and len(asked[0].names) == 1
    if documents:
        printer.data(view.all(documents, is_one and not watch))
    elif not watch:
        printer.say("No resources found" + ("" if where is None else f" in {where} namespace."))
        return
    if watch:
        _follow(client, asked, where, version, view)


class View:
    """How objects are printed: `all` at once, then `another` for each that changed."""

    def __init__(self, write: Callable[[list[Document], bool], str]) -> None:
        self.all = write

    def another(self, document: Document) -> str:
        """What is printed of an object that changed."""
        return self.all([document], True)


class TableView(View):
    """Tables; a later line stands under the titles of the first ones."""

    def __init__(self, *, wide: bool, with_namespace: bool, with_headers: bool) -> None:
        super().__init__(lambda documents, _: self._tables(documents))
        self._options = {"wide": wide, "with_namespace": with_namespace}
        self._with_headers = with_headers
        self._rows: list[list[str]] = []

    def another(self, document: Document) -> str:
        """One line."""
        thing, now = backend.thing_of(document), datetime.now(UTC)
        is_first = not self._rows
        if is_first:
            self._rows = [printing.header(kind_of(thing), **self._options)]
        row = printing.row(thing, now, **self._options)
        lines = printing.align([*self._rows, row]).splitlines()
        return "\n".join(lines) if is_first and self._with_headers else lines[-1]

    def _tables(self, documents: list[Document]) -> str:
        things, now = [backend.thing_of(document) for document in documents], datetime.now(UTC)
        text = printing.get_text(things, now, **self._options)
        head = printing.header(kind_of(things[0]), **self._options)
        self._rows = [head, *(printing.row(thing, now, **self._options) for thing in things)]
        return text if self._with_headers else "\n\n".join(_headless(text))


def _headless(text: str) -> Iterator[str]:
    for table in text.split("\n\n"):
        yield table.partition("\n")[2]


def _view(output: str | None, *, with_namespace: bool, with_headers: bool) -> View:
    if output in (None, "", "wide"):
        return TableView(wide=output == "wide", with_namespace=with_namespace, with_headers=with_headers)
    if output in ("yaml", "json"):
        write = _yaml if output == "yaml" else _json
        return View(lambda documents, is_one: write(documents[0] if is_one else _list_of(documents)))
    if output == "name":
        return View(lambda documents, _: "\n".join(_name(document) for document in documents))
    form, _, path = (output or "").partition("=")
    if form == "jsonpath" and path:
        steps = parse_json_path(path)
        return View(
            lambda documents, is_one: text_of(
                value_of(documents[0] if is_one else _list_of(documents), steps)
            )
        )
    raise ConfigError.of(f"'{output}' is not a format", hint=f"known are {_FORMATS}")


def _follow(client: LocalClient, asked: list[Asked], where: str | None, version: int, view: View) -> None:
    kinds = [kind for each in asked for kind in each.kind_names]
    names = [name for each in asked for name in each.names]
    for change in client.watch(kinds, since=version, namespace=where, names=names):
        if change is not None:
            printer.data(view.another(change.object))
            printer.flush()


def _list_of(documents: list[Document]) -> Document:
    return {"apiVersion": "v1", "items": documents, "kind": "List", "metadata": {"resourceVersion": ""}}


def _name(document: Document) -> str:
    thing = backend.thing_of(document)
    return f"{kind_of(thing).prefix}/{thing.name}"


def _yaml(document: Document) -> str:
    return write_stream([document]).rstrip("\n")


def _json(document: Document) -> str:
    return json.dumps(document, indent=4, ensure_ascii=False)
