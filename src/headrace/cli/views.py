"""The forms in which `get` prints objects, but for tables: YAML, JSON, names, single values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.api.json_paths import parse_json_path, text_of, value_of
from headrace.errors import ConfigError
from headrace.settings.yaml_streams import write_stream

Document = dict[str, Any]
_FORMATS = "wide, yaml, json, name, jsonpath={.status.phase}"

Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FORMAT", help=f"Instead of a table: {_FORMATS}.")
]


class View:
    """The form in which objects are printed: `all` at once, then `another` for each that changed."""

    def __init__(self, write: Callable[[list[Document], bool], str]) -> None:
        self.all = write

    def another(self, document: Document) -> str:
        """The printed form of an object that changed."""
        return self.all([document], True)


def is_table(output: str | None) -> bool:
    """True when a table is asked for."""
    return output in (None, "", "wide")


def document_view(output: str, name_of: Callable[[Document], str]) -> View:
    """The view that is no table. Raises `ConfigError` for a form that is not known."""
    if output in ("yaml", "json"):
        write = _yaml if output == "yaml" else _json
        return View(lambda documents, is_one: write(documents[0] if is_one else _list_of(documents)))
    if output == "name":
        return View(lambda documents, _: "\n".join(name_of(document) for document in documents))
    form, _, path = output.partition("=")
    if form == "jsonpath" and path:
        steps = parse_json_path(path)
        return View(
            lambda documents, is_one: text_of(
                value_of(documents[0] if is_one else _list_of(documents), steps)
            )
        )
    raise ConfigError.of(f"'{output}' is not a format", hint=f"known are {_FORMATS}")


def _list_of(documents: list[Document]) -> Document:
    return {"apiVersion": "v1", "items": documents, "kind": "List", "metadata": {"resourceVersion": ""}}


def _yaml(document: Document) -> str:
    return write_stream([document]).rstrip("\n")


def _json(document: Document) -> str:
    return json.dumps(document, indent=4, ensure_ascii=False)
