"""An index of the references between objects: kept in memory, so that a pass reads its own objects and not all others.

Of each object only names are kept. It is read anew whenever it changes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from headrace.api.core import PersistentVolumeClaim
from headrace.api.dataset import Dataset, Placement
from headrace.api.kinds import OPERATIONS, RUNTIMES, Operation, Runtime
from headrace.api.manifests import InvalidObjectsError
from headrace.api.mounts import scheme_of
from headrace.local.reconciler import Dataset as Key
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Record, Reference
from headrace.plan import mount_addresses
from headrace.plan.declared import referred_datasets
from headrace.plan.job_specs import dataset_keys
from headrace.plan.runtimes import wanted_of

_LINKED = ("Dataset", *RUNTIMES, *OPERATIONS, "PersistentVolumeClaim")
NAMES_SHARED = ("DataMigrate", "DataProcess", "DataBackup")
"""Operations that may name Secrets and claims of their own."""


@dataclass(frozen=True, slots=True)
class Links:
    """The names that one object holds. A title is `namespace/name`."""

    datasets: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    is_there: bool = True
    is_exclusive: bool = False
    home: Key | None = None
    """The dataset in whose passes an operation is planned: the first that it names."""
    after: Reference | None = None
    volume: str = ""


_NOTHING = Links(is_there=False)
_T = TypeVar("_T")


@dataclass(slots=True)
class _Reverse(Generic[_T]):
    """Who names a name."""

    of: defaultdict[_T, set[Reference]] = field(default_factory=lambda: defaultdict(set))

    def put(self, names: Iterable[_T], who: Reference) -> None:
        for name in names:
            self.of[name].add(who)

    def drop(self, names: Iterable[_T], who: Reference) -> None:
        for name in names:
            self.of[name].discard(who)
            if not self.of[name]:
                del self.of[name]

    def get(self, name: _T) -> frozenset[Reference]:
        return frozenset(self.of.get(name, ()))


class ReferenceIndex:
    """The links of all objects of a store, both ways. Any thread may use it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._links: dict[Reference, Links] = {}
        self._exclusive: set[str] = set()
        self._datasets: _Reverse[str] = _Reverse()
        self._homes: _Reverse[Key] = _Reverse()
        self._after: _Reverse[Reference] = _Reverse()
        self._shared: _Reverse[Reference] = _Reverse()

    def read_all(self) -> None:
        """Reads everything anew."""
        records, _ = self._store.select(Selection(_LINKED))
        with self._lock:
            for record in records:
                self._set(record.reference, _links(record))

    def refresh(self, reference: Reference) -> tuple[Links, Links]:
        """Reads an object anew; its links before and now."""
        with self._lock:
            # Read within the lock: of two who read, the last has the last state.
            record = self._store.get(reference) if reference.kind in _LINKED else None
            return self._set(reference, _links(record))

    def links(self, reference: Reference) -> Links:
        """Those of one object; none of one that is not there."""
        return self._links.get(reference, _NOTHING)

    def exclusive(self) -> frozenset[str]:
        """The titles of datasets that share no node."""
        with self._lock:
            return frozenset(self._exclusive)

    def referrers(self, title: str) -> list[Key]:
        """The datasets that refer to a dataset."""
        with self._lock:
            found = self._datasets.get(title)
        return sorted((each.namespace, each.name) for each in found if each.kind == "Dataset")

    def homes_about(self, title: str) -> set[Key]:
        """The datasets in whose passes an operation is planned that names a dataset."""
        with self._lock:
            found = self._datasets.get(title)
        return {home for each in found if (home := self.links(each).home) is not None}

    def operations(self, home: Key) -> list[Reference]:
        """The operations that are planned in the passes of a dataset."""
        with self._lock:
            return sorted(self._homes.get(home))

    def homes_after(self, operation: Reference) -> set[Key]:
        """The datasets in whose passes an operation is planned that waits for another."""
        with self._lock:
            found = self._after.get(operation)
        return {home for each in found if (home := self.links(each).home) is not None}

    def users(self, shared: Reference) -> set[Key]:
        """The datasets and the homes of operations that name a Secret or a claim."""
        with self._lock:
            found = self._shared.get(shared)
        return {self.links(each).home or (each.namespace, each.name) for each in found}

    def homes_in(self, namespace: str) -> set[Key]:
        """The homes of operations of a namespace that may name Secrets and claims by themselves."""
        with self._lock:
            here = [each for each in self._links if each.kind in NAMES_SHARED and each.namespace == namespace]
        return {home for each in here if (home := self.links(each).home) is not None}

    def claims_of(self, volume: str) -> list[Reference]:
        """The claims that a volume is bound to."""
        with self._lock:
            return sorted(self._shared.get(Reference("PersistentVolume", "", volume)))

    def _set(self, reference: Reference, now: Links) -> tuple[Links, Links]:
        before = self._links.get(reference, _NOTHING)
        if before != now:
            self._forget(reference, before)
            self._note(reference, now)
        return before, now

    def _note(self, reference: Reference, links: Links) -> None:
        if links != _NOTHING:
            self._links[reference] = links
        for reverse, names in self._reverses(reference, links):
            reverse.put(names, reference)
        if links.is_exclusive:
            self._exclusive.add(f"{reference.namespace}/{reference.name}")

    def _forget(self, reference: Reference, links: Links) -> None:
        self._links.pop(reference, None)
        for reverse, names in self._reverses(reference, links):
            reverse.drop(names, reference)
        if links.is_exclusive:
            self._exclusive.discard(f"{reference.namespace}/{reference.name}")

    def _reverses(self, reference: Reference, links: Links) -> Iterable[tuple[_Reverse, Iterable]]:  # type: ignore[type-arg]
        shared = [Reference("Secret", reference.namespace, name) for name in links.secrets]
        shared += [Reference("PersistentVolumeClaim", reference.namespace, name) for name in links.claims]
        shared += [Reference("PersistentVolume", "", links.volume)] * bool(links.volume)
        return (
            (self._datasets, links.datasets),
            (self._homes, [links.home] * (links.home is not None)),
            (self._after, [links.after] * (links.after is not None)),
            (self._shared, shared),
        )


def _links(record: Record | None) -> Links:
    """The names in an object."""
    if record is None:
        return _NOTHING
    try:
        return _names_in(record)
    except InvalidObjectsError:
        # Nothing is known of what it names. A pass under its own name tells of it.
        own = record.reference
        home = (own.namespace, own.name) if own.kind in OPERATIONS else None
        return Links(home=home, is_exclusive=own.kind == "Dataset")


def _names_in(record: Record) -> Links:
    kind = record.reference.kind
    if kind == "PersistentVolumeClaim":
        return Links(volume=cast("PersistentVolumeClaim", record.thing()).spec.volume_name or "")
    if kind in RUNTIMES:
        secret = wanted_of(cast("Runtime", record.thing())).secret
        return Links(secrets=frozenset({secret} if secret else ()))
    if kind in OPERATIONS:
        return _operation_links(record)
    return _dataset_links(cast("Dataset", record.thing()))


def _dataset_links(dataset: Dataset) -> Links:
    spec = dataset.spec
    options = [
        *spec.shared_encrypt_options,
        *(o for mount in spec.mounts or () for o in mount.encrypt_options),
    ]
    layout = [mount.mount_point for mount in spec.mounts or ()]
    restore = [spec.data_restore_location.path] if spec.data_restore_location else []
    claims = [place for place in (*layout, *restore) if place and scheme_of(place) == mount_addresses.CLAIM]
    return Links(
        datasets=frozenset(referred_datasets(dataset)),
        secrets=frozenset(option.secret[0] for option in options),
        claims=frozenset(mount_addresses.claim_of(place)[0] for place in claims),
        is_exclusive=spec.placement is not Placement.SHARED,
    )


def _operation_links(record: Record) -> Links:
    operation = cast("Operation", record.thing())
    titles = dataset_keys(operation)
    own = record.reference
    namespace, _, name = titles[0].partition("/") if titles else (own.namespace, "", own.name)
    after = operation.spec.run_after
    first = Reference(after.kind, after.namespace or own.namespace, after.name) if after else None
    return Links(datasets=frozenset(titles), home=(namespace, name), after=first)
