"""`headrace label`, `annotate` and `taint`: words at objects and nodes, as kubectl changes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from headrace.api.kinds import KINDS, Kind
from headrace.cli import backend, printer, undeclared
from headrace.cli.node_labels import parse_taint_changes
from headrace.cli.selector_options import Labels, selected, selector_of
from headrace.errors import ConfigError, HeadraceError, MissingFileError
from headrace.exits import complaint, exit_code
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import Named, NodeChange, NodeLine, Patch, TaintLine

_WORD = re.compile(r"(?P<key>[^=\s]+?)(?:=(?P<value>.*)|(?P<gone>-))", re.DOTALL)
_KEY = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NODE = next(kind for kind in undeclared.KINDS if kind.singular == "node")

Field = Literal["labels", "annotations"]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="KIND NAME... KEY=VALUE...", help="`dataset imagenet team=vision draft-`."),
]
TaintWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="nodes NAME... KEY[=VALUE]:EFFECT...", help="`nodes node-2 gpu=v100:NoSchedule spot-`."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="A value that is there may be changed.")]
Everything = Annotated[bool, typer.Option("--all", help="All objects of the kind in the namespace.")]


@dataclass(frozen=True, slots=True)
class _Target:
    """An object or a node, and what it says now."""

    title: str
    present: Mapping[str, str]
    named: Named | None = None


def run(
    words: Words = None,
    labels: Labels = None,
    everything: Everything = False,
    overwrite: Overwrite = False,
    namespace: backend.Namespace = None,
) -> None:
    """Give objects or nodes labels: KEY=VALUE; or take them away: KEY-."""
    _change("labels", "labeled", words, labels, everything, overwrite, namespace)


def annotate(
    words: Words = None,
    labels: Labels = None,
    everything: Everything = False,
    overwrite: Overwrite = False,
    namespace: backend.Namespace = None,
) -> None:
    """Give objects or nodes annotations: KEY=VALUE; or take them away: KEY-."""
    _change("annotations", "annotated", words, labels, everything, overwrite, namespace)


def taint(words: TaintWords = None, everything: Everything = False, overwrite: Overwrite = False) -> None:
    """Keep off nodes what does not tolerate it: KEY[=VALUE]:EFFECT; or no more: KEY[:EFFECT]-."""
    given = words or []
    count = next((place for place, word in enumerate(given) if ":" in word or word.endswith("-")), len(given))
    asked = undeclared.asked_for(given[:count])
    if asked is None or asked[0] is not _NODE or count == len(given) or not (asked[1] or everything):
        raise ConfigError.of(
            "which node, and which taint?", hint="headrace taint nodes node-2 gpu=v100:NoSchedule"
        )
    added, removed = parse_taint_changes(given[count:])
    client = backend.client()
    known = {line.name: line for line in client.status().nodes}
    for name in known if everything else asked[1]:
        _taint(client, name, known.get(name), added, removed, overwrite=overwrite)


def _taint(
    client: LocalClient,
    name: str,
    line: NodeLine | None,
    added: tuple[TaintLine, ...],
    removed: tuple[TaintLine, ...],
    *,
    overwrite: bool,
) -> None:
    present = line.taints if line else ()
    for each in removed:
        if line and not any(each.key == one.key and each.effect in ("", one.effect) for one in present):
            raise MissingFileError.of(f'taint "{each.key}" not found on node {name}')
    doubled = [
        each for each in added if any((each.key, each.effect) == (one.key, one.effect) for one in present)
    ]
    if doubled and not overwrite:
        raise ConfigError.of(
            f"node {name} already has taint {doubled[0].key} with effect {doubled[0].effect}",
            hint="--overwrite gives it another value",
        )
    client.change_node(NodeChange(name=name, taints=added, untaints=removed))
    printer.data(f"node/{name} {'tainted' if added or not removed else 'untainted'}")


def _change(
    field: Field,
    deed: str,
    words: list[str] | None,
    labels: str | None,
    everything: bool,
    overwrite: bool,
    namespace: str | None,
) -> None:
    given = words or []
    count = next((place for place, word in enumerate(given) if "=" in word or word.endswith("-")), len(given))
    change = _parsed(field, given[count:])
    client = backend.client()
    failed = 0
    for target in _targets(client, field, given[:count], labels, everything, namespace):
        try:
            _change_one(client, field, target, change, deed, overwrite=overwrite)
        except HeadraceError as error:
            printer.say(complaint(error))
            failed = failed or int(exit_code(error))
    if failed:
        raise typer.Exit(failed)


def _parsed(field: Field, words: Iterable[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        value = match["value"] if match else None
        good = match is not None and _KEY.fullmatch(match["key"])
        if not good or (field == "labels" and value is not None and not _LABEL_VALUE.fullmatch(value)):
            raise ConfigError.of(
                f"'{word[:128]}' is no {field[:-1]}", hint="write KEY=VALUE, or KEY- to take it away"
            )
        found[match["key"] if match else ""] = value
    if not found:
        raise ConfigError.of(f"which {field}?", hint="write KEY=VALUE, or KEY- to take it away")
    return found


def _targets(
    client: LocalClient,
    field: Field,
    resources: list[str],
    labels: str | None,
    everything: bool,
    namespace: str | None,
) -> list[_Target]:
    others = undeclared.asked_for(resources)
    names = others[1] if others else ()
    asked = [] if others else backend.asked_for(resources, command="label dataset imagenet team=vision")
    names = (*names, *(name for each in asked for name in each.names))
    selector = selector_of(labels, None, names)
    if not names and not selector and not everything:
        raise ConfigError.of("which objects are meant?", hint="name them, select them with -l, or say --all")
    if others is not None and others[0] is not _NODE:
        raise ConfigError.of(f"{others[0].words[1]} have no {field} of their own", hint="label their dataset")
    if others is not None:
        nodes = undeclared.documents_of(_NODE, names, client.status(), None, selector)
        return [_target(field, each, None) for each in nodes]
    where = namespace or backend.DEFAULT_NAMESPACE
    return [
        _target(field, document, kind)
        for each in asked
        for kind in each.kinds
        for document in (
            client.objects([kind.name], namespace=where if kind.namespaced else None, names=each.names).items
            if each.names
            else selected(client, kind.name, where if kind.namespaced else None, selector)
        )
    ]


def _target(field: Field, document: dict[str, Any], kind: Kind | None) -> _Target:
    metadata = document["metadata"]
    present = metadata.get(field) or {}
    if kind is None:
        return _Target(f"node/{metadata['name']}", present)
    named = Named(kind=kind.name, namespace=metadata.get("namespace", ""), name=metadata["name"])
    return _Target(f"{KINDS[kind.name].prefix}/{named.name}", present, named)


def _change_one(
    client: LocalClient,
    field: Field,
    target: _Target,
    change: Mapping[str, str | None],
    deed: str,
    *,
    overwrite: bool,
) -> None:
    for key, value in change.items():
        now = target.present.get(key)
        if value is None and now is None:
            printer.say(f'{field[:-1]} "{key}" not found.')
        elif value is not None and now not in (None, value) and not overwrite:
            raise ConfigError.of(
                f"'{key}' of {target.title} already has a value ({now}), and --overwrite is false",
                hint="say --overwrite to change it",
            )
    if all(target.present.get(key) == value for key, value in change.items()):
        printer.data(f"{target.title} not {deed}")
        return
    if target.named is None:
        client.change_node(NodeChange(name=target.title.partition("/")[2], **{field: dict(change)}))  # type: ignore[arg-type]
    else:
        outcome = client.patch(Patch(object=target.named, patch={"metadata": {field: dict(change)}}))
        if outcome.fault is not None:
            raise outcome.fault.as_error()
    gone = all(value is None for value in change.values())
    printer.data(f"{target.title} {'unlabeled' if gone and field == 'labels' else deed}")
