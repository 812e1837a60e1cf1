"""The status of a dataset, and its volume and finalizers: written together, so that nobody sees half of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.api.core import PersistentVolume, PersistentVolumeClaim
from headrace.api.names import FINALIZERS
from headrace.api.writing import content_of
from headrace.local.datasets.desired_state import DesiredState
from headrace.local.store.records import Record, Reference
from headrace.local.store.transaction import Transaction, owners_of
from headrace.plan.volume import DRIVER, Volume, persistent_volume, persistent_volume_claim
from headrace.reconcile.world import Statement, Subject


def write_statement(transaction: Transaction, statement: Statement, dataset: Record | None) -> None:
    """Status, events and our finalizers of one object, which may be gone meanwhile; it goes with its dataset."""
    present = find(transaction, statement.about)
    if present is None:
        return
    if dataset is not None and present.reference != dataset.reference:
        set_owner_reference(transaction, present, dataset)
        present = transaction.need(present.reference)
    for event in statement.events:
        if event.kind == present.reference.kind:
            transaction.note_event(present, event.type.value, event.reason, event.message)
    if statement.status is not None:
        present = transaction.set_status(present, statement.status)
    if statement.finalizers is not None:
        foreign = [each for each in present.finalizers if each not in FINALIZERS.values()]
        transaction.set_finalizers(present, (*foreign, *statement.finalizers))


def find(transaction: Transaction, subject: Subject) -> Record | None:
    """The object as it is by now; `None` where it is gone, or another one has its name."""
    present = transaction.get(Reference(subject.kind, subject.namespace, subject.name))
    return present if present is not None and present.uid == subject.uid else None


def set_owner_reference(transaction: Transaction, record: Record, owner: Record) -> None:
    """Makes an object go with its owner: as in Fluid, a dataset owns its runtime and its operations."""
    present, holder = transaction.get(record.reference), transaction.get(owner.reference)
    if present is None or holder is None or present.deleted or holder.deleted or holder.uid != owner.uid:
        return
    if present.damage or holder.damage:
        return
    if present.uid != record.uid or owner.uid in owners_of(present):
        return
    if record.reference.namespace != owner.reference.namespace:
        return
    metadata = present.content.get("metadata", {})
    kept = [
        each for each in metadata.get("ownerReferences") or () if each.get("kind") != owner.reference.kind
    ]
    reference = {
        "apiVersion": owner.reference.about.api_version,
        "kind": owner.reference.kind,
        "name": owner.reference.name,
        "uid": owner.uid,
    }
    transaction.replace(
        record.reference,
        {**present.content, "metadata": {**metadata, "ownerReferences": [*kept, reference]}},
    )


def write_volume(transaction: Transaction, desired: DesiredState, volume: Volume | None) -> None:
    """Makes the volume and its claim, or takes them away. Objects that a person made under these names are left
    alone."""
    if volume is None:
        _take_away(transaction, desired)
        return
    claim_at = Reference("PersistentVolumeClaim", volume.namespace, volume.claim)
    volume_at = Reference("PersistentVolume", "", volume.name)
    claim, present = transaction.get(claim_at), transaction.get(volume_at)
    wanted = persistent_volume(volume)
    if claim is not None and _spec(claim).get("volumeName") != volume.name:
        return
    if claim is None:
        claim = transaction.create(claim_at, _content(persistent_volume_claim(volume)))
    if present is None:
        transaction.create(volume_at, _bound(_content(wanted), claim))
    elif _is_ours(present) and _shows_otherwise(present, wanted):
        transaction.replace(volume_at, _bound(_content(wanted), claim))


def _take_away(transaction: Transaction, desired: DesiredState) -> None:
    namespace, name = desired.key
    claim = transaction.get(Reference("PersistentVolumeClaim", namespace, name))
    own = name if namespace == "default" else f"{name}.{namespace}"
    volume = transaction.get(Reference("PersistentVolume", "", own))
    if volume is None or not _is_ours(volume):
        return
    if claim is not None and claim.deleted is None and _spec(claim).get("volumeName") == own:
        transaction.delete(claim.reference)
    if volume.deleted is None:
        transaction.delete(volume.reference)


def _is_ours(volume: Record) -> bool:
    return (_spec(volume).get("csi") or {}).get("driver") == DRIVER


def _shows_otherwise(present: Record, wanted: PersistentVolume) -> bool:
    """True when it shows other data, or has another size or other modes."""
    before, after = _spec(present), _content(wanted)["spec"]
    return any(before.get(key) != after.get(key) for key in ("csi", "capacity", "accessModes"))


def _spec(record: Record) -> Mapping[str, Any]:
    """Its `spec`; empty where nothing of it can be read."""
    spec: Mapping[str, Any] = record.content.get("spec") or {}
    return spec


def _content(thing: PersistentVolume | PersistentVolumeClaim) -> dict[str, Any]:
    content = content_of(thing)
    for key in ("apiVersion", "kind", "metadata", "status"):
        content.pop(key, None)
    return content


def _bound(content: dict[str, Any], claim: Record) -> dict[str, Any]:
    """The volume as the binder wants it: with the identity of its claim."""
    owner = {
        "kind": "PersistentVolumeClaim",
        "namespace": claim.reference.namespace,
        "name": claim.reference.name,
        "apiVersion": "v1",
        "uid": claim.uid,
    }
    return {**content, "spec": {**content["spec"], "claimRef": owner}}
