"""The volumes that jobs may name, from what is declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.jobs.views import ClaimView
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Record


def claim_views(store: Store, namespace: str | None) -> Iterator[ClaimView]:
    """All claims of a namespace (None: of all), by their names. Blocks."""
    records, _ = store.select(Selection(("PersistentVolumeClaim",), namespace))
    datasets, _ = store.select(Selection(("Dataset",), namespace))
    known = {(each.reference.namespace, each.reference.name): each for each in datasets}
    for record in records:
        key = record.reference.namespace, record.reference.name
        yield _view(record, known.get(key))


def _view(record: Record, dataset: Record | None) -> ClaimView:
    metadata: dict[str, Any] = record.content.get("metadata") or {}
    annotations: dict[str, Any] = metadata.get("annotations") or {}
    status: dict[str, Any] = dict(record.status or {})
    spec: dict[str, Any] = dict(record.content.get("spec") or {})
    return ClaimView(
        name=record.reference.name,
        namespace=record.reference.namespace,
        access_modes=tuple(status.get("accessModes") or spec.get("accessModes") or ()),
        phase=str(status.get("phase") or "Pending"),
        created=record.created,
        description=str(annotations.get("description") or ""),
        owner=str(annotations.get("owner") or ""),
        is_dataset=dataset is not None,
        cached=_cached(dataset) if dataset is not None else "",
        is_being_deleted=record.deleted is not None,
    )


def _cached(record: Record) -> str:
    states: Any = (record.status or {}).get("cacheStates") or {}
    return str(states.get("cachedPercentage") or "")
