"""Datasets that are being deleted: who uses one may go on, and nobody else may begin to, or it would never go."""

from __future__ import annotations

from headrace.api.kinds import RUNTIMES
from headrace.local.reconciler import Dataset as Key
from headrace.local.store.object_store import Store
from headrace.local.store.records import Reference


def leaving_text(store: Store, key: Key) -> str:
    """Why nobody may begin to use the dataset, in a sentence; empty: it is to stay. Blocks."""
    title = "/".join(key)
    if _is_leaving(store, Reference("Dataset", *key)):
        return f"dataset {title} is being deleted"
    if any(_is_leaving(store, Reference(kind, *key)) for kind in RUNTIMES):
        return f"the runtime of dataset {title} is being deleted"
    return ""


def _is_leaving(store: Store, reference: Reference) -> bool:
    record = store.get(reference)
    return record is not None and record.deleted is not None
