"""`headrace wait`: blocks until objects meet a condition, are deleted, or the timeout expires."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.api.go_durations import parse_duration
from headrace.api.json_paths import parse_json_path, text_of, value_of
from headrace.api.kinds import KINDS
from headrace.api.object_selectors import Selector, parse_selector
from headrace.cli import backend, printer
from headrace.cli.selector_options import Fields, Labels, selected
from headrace.errors import ConfigError, DeadlineError, MissingFileError
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import Named

Test = Callable[[dict[str, Any] | None], bool]
"""True if an object meets the condition; `None` for one that is not there."""

_FORMS = "condition=Ready, delete, create, jsonpath='{.status.phase}'=Bound"


def run(
    resources: backend.Resources = None,
    wished: Annotated[
        str, typer.Option("--for", metavar="WISH", help=f"Condition to wait for: {_FORMS}.")
    ] = "",
    filename: backend.Files = None,
    namespace: backend.Namespace = None,
    labels: Labels = None,
    fields: Fields = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All objects of the kind in the namespace, as without names.")
    ] = False,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Timeout: 30s, 5m; 0 looks once.")] = "30s",
) -> None:
    """Wait until declared objects meet a condition."""
    test, may_be_missing = parse_wish(wished)
    deadline = time.monotonic() + parse_duration(timeout)
    client = backend.client()
    selector = parse_selector(labels, fields)
    if selector and everything:
        raise ConfigError.of("all objects are meant, or those that -l selects", hint="leave one of them out")
    for named in _meant(client, resources, filename, namespace, selector):
        wait_for(client, named, test, deadline, may_be_missing=may_be_missing)
        printer.data(f"{backend.full_name(named)} condition met")
        printer.flush()


def parse_wish(text: str) -> tuple[Test, bool]:
    """The test for `condition=Ready`, `delete` and so on; whether an object may be missing. Raises `ConfigError`."""
    form, _, rest = text.partition("=")
    if text == "delete":
        return lambda document: document is None, True
    if text == "create":
        return lambda document: document is not None, True
    if form == "condition" and rest:
        name, _, value = rest.partition("=")
        return lambda document: _condition(document, name) == (value or "True").lower(), False
    if form == "jsonpath" and rest:
        return _path_test(rest), False
    raise ConfigError.of(f"'{text}' is not something to wait for", hint=f"--for takes {_FORMS}")


def wait_for(
    client: LocalClient, named: Named, test: Test, deadline: float, *, may_be_missing: bool = True
) -> None:
    """Returns when the object passes the test.

    Raises `MissingFileError` when it is not there and must be, `DeadlineError` at the deadline (monotonic seconds).
    """
    where = {"namespace": named.namespace or None, "names": [named.name]}
    try:
        listing = client.objects([named.kind], **where)  # type: ignore[arg-type]
        document: dict[str, Any] | None = listing.items[0]
        version = listing.resource_version
    except MissingFileError:
        if not may_be_missing:
            raise
        listing = client.objects([named.kind], namespace=named.namespace or None)
        document, version = _named_in(listing.items, named.name), listing.resource_version
    if test(document):
        return
    for change in client.watch([named.kind], since=version, **where):  # type: ignore[arg-type]
        if change is not None:
            document = None if change.type == "DELETED" else change.object
            if test(document):
                return
            if document is None and not may_be_missing:
                raise MissingFileError.of(f"{backend.full_name(named)} was deleted meanwhile")
        elif time.monotonic() >= deadline:
            plural = KINDS[named.kind].plural
            raise DeadlineError.of(
                f"timed out waiting for the condition on {plural}/{named.name}",
                hint=f"headrace describe {KINDS[named.kind].singular} {named.name}",
            )


def _meant(
    client: LocalClient,
    resources: list[str] | None,
    files: list[str] | None,
    namespace: str | None,
    selector: Selector,
) -> list[Named]:
    if files:
        things = backend.read_files(files, namespace)
        return [
            Named(kind=thing.kind, namespace=backend.namespace_of(thing, namespace), name=thing.name)
            for thing in things
        ]
    where = namespace or backend.DEFAULT_NAMESPACE
    found = []
    for asked in backend.asked_for(resources, command="wait --for=condition=Ready"):
        if selector and asked.names:
            raise ConfigError.of("objects are named, or selected, not both", hint="leave the names or -l out")
        for kind in asked.kinds:
            inside = where if kind.namespaced else ""
            names = asked.names or [
                item["metadata"]["name"] for item in selected(client, kind.name, inside or None, selector)
            ]
            found += [Named(kind=kind.name, namespace=inside, name=name) for name in names]
    if not found:
        raise MissingFileError.of(f"no matching resources found in {where} namespace")
    return found


def _path_test(text: str) -> Test:
    closing = text.rfind("}")
    path, equals, value = (
        (text[: closing + 1], text[closing + 1 : closing + 2], text[closing + 2 :])
        if closing >= 0
        else text.partition("=")
    )
    steps = parse_json_path(path)
    if equals:
        return lambda document: text_of(value_of(document, steps)) == value
    return lambda document: value_of(document, steps) is not None


def _condition(document: dict[str, Any] | None, name: str) -> str:
    conditions = ((document or {}).get("status") or {}).get("conditions") or ()
    wanted = name.lower()
    return next(
        (str(c.get("status")).lower() for c in conditions if str(c.get("type")).lower() == wanted), ""
    )


def _named_in(items: tuple[dict[str, Any], ...], name: str) -> dict[str, Any] | None:
    return next((item for item in items if item["metadata"]["name"] == name), None)
