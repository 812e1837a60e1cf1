"""`headrace delete`: asks for the deletion of objects, and waits until they are gone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.api.go_durations import parse_duration
from headrace.api.kinds import KINDS, kinds_called
from headrace.api.object_selectors import Selector, parse_selector
from headrace.cli import backend, printer
from headrace.cli.selector_options import Fields, Labels, selected
from headrace.cli.wait import Test, wait_for
from headrace.errors import ConfigError
from headrace.exits import complaint, exit_code
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import Named, Outcome

_FOREVER_S = 10.0 * 365 * 86400


def run(
    resources: backend.Resources = None,
    filename: backend.Files = None,
    namespace: backend.Namespace = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All objects of the kind in the namespace.")
    ] = False,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="An object that is not there is no error.")
    ] = False,
    labels: Labels = None,
    fields: Fields = None,
    cascade: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="Fate of owned objects: deleted too (background), or kept (orphan)."
        ),
    ] = "background",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the objects are gone.")] = True,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Timeout: 30s, 5m; 0s for as long as it takes.")
    ] = "0s",
) -> None:
    """Delete declared objects, and what runs for them."""
    resources, filename = _as_meant(resources, filename)
    limit_s = parse_duration(timeout) or _FOREVER_S
    client = backend.client()
    chosen = _Chosen(resources, filename, namespace, everything, parse_selector(labels, fields))
    meant = _meant(client, chosen)
    if not meant:
        printer.say("No resources found")
        return
    outcomes = client.delete(meant, cascade=_cascade(cascade))
    failed = [code for outcome in outcomes if (code := _tell(outcome, ignore_not_found))]
    printer.flush()
    deadline = time.monotonic() + limit_s
    for outcome in outcomes if wait else ():
        if outcome.document is not None:
            wait_for(client, outcome.object, _is_gone(outcome.document["metadata"]["uid"]), deadline)
    if failed:
        raise typer.Exit(failed[0])


def _as_meant(words: list[str] | None, files: list[str] | None) -> tuple[list[str] | None, list[str] | None]:
    """Takes `-f KIND NAME` for `KIND NAME` when there is no such file: it is how documents of JindoFS print it."""
    if not words or len(files or ()) != 1 or not files or Path(files[0]).exists():
        return words, files
    try:
        kinds_called(files[0])
    except ConfigError:
        return words, files
    printer.warn(
        f"there is no file {files[0]}, so this is taken for: headrace delete {files[0]} {' '.join(words)}"
    )
    return [files[0], *words], None


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a person said of which objects shall go."""

    resources: list[str] | None
    files: list[str] | None
    namespace: str | None
    everything: bool
    selector: Selector

    def check(self, names: tuple[str, ...]) -> None:
        """Raises `ConfigError` for too little, and for words that contradict each other."""
        if not names and not self.everything and not self.selector:
            raise ConfigError.of(
                "which objects shall go?", hint="name them, select them with -l, or say --all"
            )
        if self.selector and (names or self.everything):
            raise ConfigError.of(
                "objects are named, or selected, or all are meant", hint="leave -l or the rest out"
            )


def _meant(client: LocalClient, chosen: _Chosen) -> list[Named]:
    if chosen.files:
        return [
            Named(kind=thing.kind, namespace=backend.namespace_of(thing, chosen.namespace), name=thing.name)
            for thing in backend.read_files(chosen.files, chosen.namespace)
        ]
    where, found = chosen.namespace or backend.DEFAULT_NAMESPACE, []
    for asked in backend.asked_for(chosen.resources, command="delete"):
        chosen.check(asked.names)
        for kind in asked.kinds:
            inside = where if kind.namespaced else ""
            listed = [] if asked.names else selected(client, kind.name, inside or None, chosen.selector)
            names = asked.names or [item["metadata"]["name"] for item in listed]
            found += [Named(kind=kind.name, namespace=inside, name=name) for name in names]
    return found


def _cascade(word: str) -> Literal["background", "orphan"]:
    if word == "orphan":
        return "orphan"
    if word != "background":
        raise ConfigError.of(f"'{word[:32]}' is no way to delete", hint="--cascade=background or orphan")
    return "background"


def _is_gone(uid: str) -> Test:
    """Passed when there is no such object any more, though there may be another one of its name."""
    return lambda document: document is None or document["metadata"]["uid"] != uid


def _tell(outcome: Outcome, ignore_not_found: bool) -> int:
    """Says what became of one; an exit code when it was not deleted."""
    if outcome.fault is None:
        printer.data(f'{KINDS[outcome.object.kind].prefix} "{outcome.object.name}" deleted')
        return 0
    if outcome.fault.kind == "NotFound" and ignore_not_found:
        return 0
    error = outcome.fault.as_error()
    printer.say(complaint(error))
    return int(exit_code(error))
