"""Declarations on their way into the store: checked, put into one form, merged with what is there.

Works within a transaction that it is handed; answers what became of the object.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.api.core import Secret
from headrace.api.kinds import Object, kind_of
from headrace.api.manifests import InvalidObjectsError, object_of
from headrace.api.writing import content_of
from headrace.errors import BusyError, ConfigError
from headrace.local.store.records import KEPT_METADATA, Content, Record, Reference, refuse_damaged
from headrace.local.store.three_way_merge import three_way_merge
from headrace.local.store.transaction import Transaction
from headrace.merge_patch import patched

DEFAULT_NAMESPACE = "default"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's own annotation, so that an object says the same wherever it was applied."""

_SEALED = "**********"
_SECRET_VALUES = ("data", "stringData")


class Deed(StrEnum):
    """The outcome of an object, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    SCALED = "scaled"
    PATCHED = "patched"


@dataclass(frozen=True, slots=True)
class Wish:
    """An object as somebody wants it."""

    reference: Reference
    content: Content
    finalizers: tuple[str, ...] = ()
    expected: int | None = None


def wish_of(thing: Object, namespace: str) -> Wish:
    """The wanted state of an object that says no other namespace than its own, or else is in `namespace`."""
    kind, document = kind_of(thing), content_of(thing, reveal_secrets=True)
    metadata = document.pop("metadata")
    for key in ("apiVersion", "kind", "status"):
        document.pop(key, None)
    if isinstance(thing, Secret):
        document = _folded(document)
    kept = {key: metadata[key] for key in KEPT_METADATA if metadata.get(key)}
    where = (thing.namespace or namespace) if kind.namespaced else ""
    version = thing.metadata.resource_version
    return Wish(
        Reference(kind.name, where, thing.name),
        {"metadata": kept, **document} if kept else document,
        tuple(thing.metadata.finalizers),
        int(version) if version and version.isdigit() else None,
    )


def create(transaction: Transaction, wish: Wish) -> Record:
    """Makes a new object. Raises `ConfigError` when it is there already, or makes no sense where it is put."""
    _check(wish.reference, wish.content)
    return transaction.create(wish.reference, wish.content, wish.finalizers)


def apply(transaction: Transaction, wish: Wish) -> tuple[Record, Deed]:
    """Makes the object, or changes what the file changes.

    Raises `ConfigError` when what comes out is no valid object, `BusyError` when it is being deleted or has changed.
    """
    said = json.dumps(_sealed(wish), separators=(",", ":"), sort_keys=True)
    present = transaction.get(wish.reference)
    if present is None:
        _check(wish.reference, wish.content)
        return transaction.create(wish.reference, _noting(wish.content, said), wish.finalizers), Deed.CREATED
    _check_not_leaving(present)
    merged = _noting(three_way_merge(present.content, _last_said(present), wish.content), said)
    _check_change(present, merged)
    changed = transaction.replace(wish.reference, merged, expected=wish.expected)
    deed = Deed.UNCHANGED if changed.resource_version == present.resource_version else Deed.CONFIGURED
    return changed, deed


def scale(
    transaction: Transaction, reference: Reference, replicas: int, *, current: int | None = None
) -> Record:
    """Gives a runtime so many workers. `current` is what it must have now.

    Raises `ConfigError` for a kind that has none, `BusyError` for another number than `current`.
    """
    if not reference.about.scaled:
        raise ConfigError.of(f"{reference} has no replicas", hint="scale an alluxioruntime or a jindoruntime")
    present = transaction.need(reference)
    _check_not_leaving(present)
    refuse_damaged(present)
    now = int(present.content.get("spec", {}).get("replicas", 1))
    if current is not None and now != current:
        raise BusyError.of(f"{reference} has {now} replicas, not {current}; nothing was changed")
    spec = {**present.content.get("spec", {}), "replicas": replicas}
    changed = {**present.content, "spec": spec}
    _check_change(present, changed)
    return transaction.replace(reference, changed)


def patch(transaction: Transaction, reference: Reference, change: Mapping[str, Any]) -> Record | None:
    """Changes an object by a JSON merge patch; `None` when that was the end of its deletion.

    Raises `ConfigError` for what may not be changed or makes no valid object.
    """
    present = transaction.need(reference)
    refuse_damaged(present)
    document = present.document()
    wanted = patched(document, change)
    for field in ("apiVersion", "kind", "status"):
        if wanted.get(field) != document.get(field):
            raise ConfigError.of(f"{reference}: {field} is not changed by a patch")
    metadata = wanted.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("name") != reference.name:
        raise ConfigError.of(f"{reference}: metadata.name is not changed by a patch")
    wish = wish_of(object_of(wanted, str(reference)), reference.namespace)
    if wish.content != present.content:
        _check_not_leaving(present)
        _check_change(present, wish.content)
        present = transaction.replace(reference, wish.content)
    return transaction.set_finalizers(present, wish.finalizers)


def _check_change(present: Record, content: Content) -> None:
    """Raises `ConfigError` for content that may not take the place of what is there."""
    _check(present.reference, content)
    fixed = ("data", "binaryData", "immutable")
    if present.content.get("immutable") and any(present.content.get(k) != content.get(k) for k in fixed):
        raise ConfigError.of(f"{present.reference} is immutable", hint="delete it, and create another")


def _check(reference: Reference, content: Content) -> None:
    """Raises `ConfigError` for what could not be read again from where it is to be kept.

    A file need not say the namespace, so only here is the whole object known: what refers to other namespaces is
    checked against its own.
    """
    kind = reference.about
    metadata = {"name": reference.name, **content.get("metadata", {})}
    if reference.namespace:
        metadata["namespace"] = reference.namespace
    try:
        object_of({"apiVersion": kind.api_version, "kind": kind.name, **content, "metadata": metadata})
    except InvalidObjectsError as error:
        faults = "; ".join(": ".join(filter(None, (each.path, each.problem))) for each in error.faults)
        raise ConfigError.of(f'the {kind.name} "{reference.name}" is invalid: {faults}') from None


def _check_not_leaving(present: Record) -> None:
    if present.deleted is not None:
        raise BusyError.of(
            f"{present.reference} is being deleted",
            hint=f"headrace wait --for=delete {present.reference.about.singular}/{present.reference.name}",
        )


def _folded(document: Mapping[str, Any]) -> dict[str, Any]:
    """A Secret with all its values under `data`: what a file no longer says under either name can be taken away."""
    plain = document.get("stringData") or {}
    coded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
    rest = {key: value for key, value in document.items() if key != "stringData"}
    return {**rest, "data": {**(document.get("data") or {}), **coded}}


def _noting(content: Content, said: str) -> dict[str, Any]:
    metadata = content.get("metadata", {})
    annotations = {**metadata.get("annotations", {}), LAST_APPLIED: said}
    return {**content, "metadata": {**metadata, "annotations": annotations}}


def _sealed(wish: Wish) -> dict[str, Any]:
    """What the file said; of a Secret only its keys, which is all that the next merge needs."""
    content = dict(wish.content)
    if wish.reference.kind == "Secret":
        content |= {key: dict.fromkeys(content[key], _SEALED) for key in _SECRET_VALUES if key in content}
    return content


def _last_said(present: Record) -> dict[str, Any]:
    try:
        said = json.loads(present.content.get("metadata", {}).get("annotations", {}).get(LAST_APPLIED, "{}"))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
