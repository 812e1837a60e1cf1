"""Claims find their volumes, as Kubernetes' own controller has it: what `get pv,pvc` shows as Bound, Pending, Released.

`bindings` is pure: objects in, the objects that have to change out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.api.quantities import size_bytes
from headrace.errors import ConfigError
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Record

_log = logging.getLogger("headrace.local")

KINDS = ("PersistentVolume", "PersistentVolumeClaim")


@dataclass(frozen=True, slots=True)
class Binding:
    """An object that has to change: its content and status as they shall be."""

    record: Record
    content: Mapping[str, Any]
    status: Mapping[str, Any]


def bindings(records: Iterable[Record]) -> list[Binding]:
    """The changes by which each claim that can have a volume has one, and every phase is true."""
    everything = list(records)
    volumes = {each.reference.name: each for each in everything if each.reference.kind == KINDS[0]}
    claims = [each for each in everything if each.reference.kind == KINDS[1]]
    owners = {each.uid: each for each in claims}
    wanted: list[Binding] = []
    for claim in sorted(
        claims, key=lambda each: (not _spec(each).get("volumeName"), each.created, each.reference)
    ):
        volume = _volume_for(claim, volumes)
        if volume is not None:
            volumes[volume.reference.name] = replace(volume, content=_claimed(volume, claim))
        wanted.append(_claim_binding(claim, volume))
    wanted += [_volume_binding(volume, owners) for volume in volumes.values()]
    before = {each.reference: each for each in everything}
    return [each for each in wanted if _differs(each, before[each.record.reference])]


def bind(store: Store) -> int:
    """Makes the bindings; how many objects it changed."""
    records = [record for record in store.select(Selection(KINDS))[0] if not record.damage]
    if not bindings(records):
        return 0
    with store.changing() as transaction:
        present = [each for record in records if (each := transaction.get(record.reference))]
        changes = bindings([record for record in present if not record.damage])
        for change in changes:
            changed = transaction.replace(change.record.reference, change.content)
            transaction.set_status(changed, change.status)
    return len(changes)


class Binder:
    """Binds after changes, many changes at once. Used from one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = asyncio.Event()
        self._changed.set()

    def reconcile(self) -> None:
        """Something has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Binds until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await asyncio.to_thread(bind, self._store)
            except Exception:
                _log.exception("volumes: claims cannot be bound for now")


def _volume_for(claim: Record, volumes: Mapping[str, Record]) -> Record | None:
    """The volume that a claim has, names, or may take: the smallest that is large enough."""
    if name := _spec(claim).get("volumeName"):
        volume = volumes.get(str(name))
        return volume if volume and (not _spec(volume).get("claimRef") or _is_of(volume, claim)) else None
    fitting = [volume for volume in volumes.values() if _fits(volume, claim)]
    return min(fitting, key=lambda each: (not _is_of(each, claim), _size(each), each.reference), default=None)


def _fits(volume: Record, claim: Record) -> bool:
    """Whether a claim that names no volume may take this one."""
    spec, asked = _spec(volume), _spec(claim)
    if volume.deleted or claim.deleted or (spec.get("claimRef") and not _is_of(volume, claim)):
        return False
    requests = (asked.get("resources") or {}).get("requests") or {}
    return (
        (spec.get("storageClassName") or "") == (asked.get("storageClassName") or "")
        and set(asked.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and _size(volume) >= _bytes(requests.get("storage"))
    )


def _is_of(volume: Record, claim: Record) -> bool:
    owner = _spec(volume).get("claimRef") or {}
    return (owner.get("namespace"), owner.get("name")) == (
        claim.reference.namespace,
        claim.reference.name,
    ) and owner.get("uid") in (None, claim.uid)


def _claimed(volume: Record, claim: Record) -> dict[str, Any]:
    owner = {
        "kind": KINDS[1],
        "namespace": claim.reference.namespace,
        "name": claim.reference.name,
        "apiVersion": "v1",
        "uid": claim.uid,
    }
    return {**volume.content, "spec": {**_spec(volume), "claimRef": owner}}


def _claim_binding(claim: Record, volume: Record | None) -> Binding:
    if volume is None:
        lost = bool((claim.status or {}).get("phase") in ("Bound", "Lost") and _spec(claim).get("volumeName"))
        return Binding(claim, claim.content, {**(claim.status or {}), "phase": "Lost" if lost else "Pending"})
    spec = {**_spec(claim), "volumeName": volume.reference.name}
    status = {
        **(claim.status or {}),
        "phase": "Bound",
        "accessModes": list(_spec(volume).get("accessModes") or ()),
        "capacity": dict(_spec(volume).get("capacity") or {}),
    }
    return Binding(claim, {**claim.content, "spec": spec}, status)


def _volume_binding(volume: Record, claims: Mapping[str, Record]) -> Binding:
    owner = _spec(volume).get("claimRef") or {}
    if not owner.get("uid"):
        phase = "Available"
    elif owner["uid"] in claims:
        phase = "Bound"
    else:
        phase = "Released"
    return Binding(volume, volume.content, {**(volume.status or {}), "phase": phase})


def _differs(wanted: Binding, before: Record) -> bool:
    return wanted.content != before.content or wanted.status != before.status


def _size(volume: Record) -> int:
    return _bytes((_spec(volume).get("capacity") or {}).get("storage"))


def _bytes(quantity: Any) -> int:
    try:
        return size_bytes(quantity if isinstance(quantity, int) else str(quantity or 0))
    except ConfigError:
        return 0


def _spec(record: Record) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = record.content.get("spec") or {}
    return spec
