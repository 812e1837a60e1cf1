"""The desired state of one dataset in the store: its declarations, and the objects of its namespace that they name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from headrace.api.dataset import Dataset
from headrace.api.kinds import OPERATIONS, RUNTIMES, Object, Runtime
from headrace.local.datasets.reference_index import NAMES_SHARED, ReferenceIndex
from headrace.local.reconciler import Dataset as Key
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Record, Reference
from headrace.plan.declared import Declared, chosen_runtime, referred_datasets
from headrace.plan.refusals import dataset_that_leaves
from headrace.plan.sharing import allowed_referrers

SHARED = ("Secret", "PersistentVolumeClaim", "PersistentVolume")


@dataclass(frozen=True, slots=True)
class DesiredState:
    """One dataset as it is declared at one moment. `declared` is `None` when neither it nor a runtime is there."""

    key: Key
    records: tuple[Record, ...]
    declared: Declared | None = None
    dataset: Record | None = None
    runtime: Record | None = None
    spares: tuple[Record, ...] = ()
    operations: tuple[Record, ...] = ()
    refused: tuple[Record, ...] = ()
    """Those of the dataset, its runtimes and operations that make no sense. Nothing else is known of them."""
    referrers: tuple[str, ...] = ()
    exclusive: frozenset[str] = field(default_factory=frozenset)

    @property
    def title(self) -> str:
        """`namespace/name`."""
        return "/".join(self.key)

    @property
    def is_leaving(self) -> bool:
        """True when its dataset or its runtime is to be deleted, or both are gone."""
        runtimes = [record for record in self.refused if record.reference.kind in RUNTIMES]
        there = [record for record in (self.dataset, self.runtime, *runtimes) if record is not None]
        return not there or any(record.deleted is not None for record in there)

    def of(self, *kinds: str) -> Iterator[Record]:
        """The objects of these kinds in the namespace, or in none."""
        for record in self.records:
            reference = record.reference
            if reference.kind in kinds and reference.namespace in ("", self.key[0]):
                yield record

    def find(self, kind: str, name: str, namespace: str | None = None) -> Record | None:
        """One object."""
        wanted = Reference(kind, self.key[0] if namespace is None else namespace, name)
        return next((record for record in self.records if record.reference == wanted), None)


def desired_state_of(store: Store, index: ReferenceIndex, key: Key) -> DesiredState:
    """The desired state of a dataset. Blocks. Costs no more for how many other datasets there are."""
    namespace, name = key
    records = _read(store, index, key)
    datasets = {title_of(each): each for each in records.values() if each.reference.kind == "Dataset"}
    runtimes = [record for record in records.values() if _is(record, RUNTIMES, namespace, name)]
    dataset = datasets.get(f"{namespace}/{name}")
    operations = [records[each] for each in index.operations(key) if each in records]
    own = [*([dataset] if dataset else []), *runtimes, *operations]
    read = {record.reference: record.understood() for record in own}
    refused = tuple(record for record in own if read[record.reference] is None)
    runtimes = [record for record in runtimes if record not in refused]
    things = {record.reference: cast("Runtime", read[record.reference]) for record in runtimes}
    thing = _dataset(dataset, read)
    chosen = chosen_runtime(thing, things.values())
    runtime = next((record for record in runtimes if things[record.reference] is chosen), None)
    references = _references(thing, {title: each for title, each in datasets.items() if each is not dataset})
    return DesiredState(
        key=key,
        records=tuple(records[each] for each in sorted(records)),
        declared=Declared(thing, chosen, references) if thing or chosen else None,
        dataset=dataset,
        runtime=runtime,
        spares=tuple(record for record in runtimes if record is not runtime),
        operations=tuple(record for record in operations if record not in refused),
        refused=refused,
        referrers=tuple(_referrers(store, index, key, dataset)),
        exclusive=index.exclusive(),
    )


def affected_datasets(index: ReferenceIndex, changed: Reference) -> set[Key]:
    """The datasets that a change of an object may matter to."""
    key = changed.namespace, changed.name
    before, now = index.refresh(changed)
    if changed.kind in RUNTIMES:
        return {key}
    if changed.kind == "Dataset":
        title = "/".join(key)
        turned = {_key_of(each) for each in before.datasets ^ now.datasets}
        return {key, *index.referrers(title), *index.homes_about(title), *turned}
    if changed.kind in OPERATIONS:
        return {home for home in (before.home, now.home) if home} | index.homes_after(changed)
    if changed.kind == "PersistentVolume":
        claims = index.claims_of(changed.name)
        return _own(index, _owner_of(changed.name)).union(*(_users(index, each) for each in claims))
    own = _own(index, key) if changed.kind == "PersistentVolumeClaim" else set()
    return own | _users(index, changed)


def _users(index: ReferenceIndex, shared: Reference) -> set[Key]:
    """Who names a Secret or a claim, and the datasets that refer to those."""
    users = index.users(shared)
    seen, left = set(users), list(users)
    while left:
        referring = set(index.referrers("/".join(left.pop()))) - seen
        seen |= referring
        left += referring
    return seen | index.homes_in(shared.namespace)


def _owner_of(volume: str) -> Key:
    """The dataset whose own volume would have this name."""
    name, dot, namespace = volume.rpartition(".")
    return (namespace, name) if dot else ("default", volume)


def _own(index: ReferenceIndex, key: Key) -> set[Key]:
    """The dataset, if it is one: whose volume and claim have its name."""
    return {key} if index.links(Reference("Dataset", *key)).is_there else set()


def _read(store: Store, index: ReferenceIndex, key: Key) -> dict[Reference, Record]:
    """The objects that have to do with a dataset: its own, what it refers to, what its operations are about."""
    operations = index.operations(key)
    about = {each for operation in operations for each in index.links(operation).datasets}
    datasets = _with_named(index, {"/".join(key)})
    found = [Reference("Dataset", *_key_of(title)) for title in datasets | about]
    found += [Reference(kind, *_key_of(title)) for title in {"/".join(key)} | about for kind in RUNTIMES]
    found += [*operations, *(each for op in operations if (each := index.links(op).after))]
    records = {each: record for each in found if (record := store.get(each))}
    if any(operation.kind in NAMES_SHARED for operation in operations):
        namespaces = {key[0], *(each.namespace for each in operations)}
        shared = [each for where in sorted(namespaces) for each in store.select(Selection(SHARED, where))[0]]
    else:
        shared = _named_by(store, index, key, {each for each in records if each.kind != "Secret"})
    return records | {record.reference: record for record in shared}


def _named_by(store: Store, index: ReferenceIndex, key: Key, objects: Iterable[Reference]) -> list[Record]:
    """The Secrets, claims and volumes that objects of the namespace name, and the dataset's own."""
    namespace, name = key
    links = [index.links(each) for each in objects if each.namespace == namespace]
    secrets = {secret for each in links for secret in each.secrets}
    claims = {claim for each in links for claim in each.claims} | {name}
    wanted = [Reference("Secret", namespace, each) for each in sorted(secrets)]
    wanted += [Reference("PersistentVolumeClaim", namespace, each) for each in sorted(claims)]
    records = [record for each in wanted if (record := store.get(each))]
    volumes = {index.links(each.reference).volume for each in records} - {""}
    volumes.add(name if namespace == "default" else f"{name}.{namespace}")
    found = (store.get(Reference("PersistentVolume", "", each)) for each in sorted(volumes))
    return [*records, *(record for record in found if record)]


def _with_named(index: ReferenceIndex, titles: set[str]) -> set[str]:
    """Datasets, those that they refer to, and those that these refer to."""
    seen, left = set(titles), list(titles)
    while left:
        named = index.links(Reference("Dataset", *_key_of(left.pop()))).datasets - seen
        seen |= named
        left += named
    return seen


def title_of(record: Record) -> str:
    """`namespace/name`."""
    return f"{record.reference.namespace}/{record.reference.name}"


def _key_of(title: str) -> Key:
    namespace, _, name = title.partition("/")
    return namespace, name


def _references(dataset: Dataset | None, known: Mapping[str, Record]) -> dict[str, Dataset]:
    """The datasets that it refers to, and those that these refer to, as far as they exist."""
    found: dict[str, Dataset] = {}
    wanted: list[str] = sorted(referred_datasets(dataset)) if dataset else []
    while wanted:
        title = wanted.pop()
        if title in known and title not in found:
            other = known[title].understood()
            if other is not None:
                found[title] = cast("Dataset", other)
                wanted += sorted(referred_datasets(found[title]))
    return found


def _referrers(store: Store, index: ReferenceIndex, key: Key, dataset: Record | None) -> Iterator[str]:
    """Who refers to it and may. One that is to go is not kept by those that came too late to be read through it."""
    title, is_leaving = "/".join(key), bool(dataset and dataset.deleted)
    own = dataset.document() if dataset is not None else None
    for each in sorted(allowed_referrers(map("/".join, index.referrers(title)), own, title)):
        record = store.get(Reference("Dataset", *_key_of(each))) if is_leaving else None
        if not is_leaving or (record is not None and (record.status or {}).get("mounts")):
            yield each


def _dataset(record: Record | None, read: Mapping[Reference, Object | None]) -> Dataset | None:
    """The Dataset. Of one that makes no sense and is to go, enough to take everything down."""
    if record is None:
        return None
    thing = cast("Dataset | None", read[record.reference])
    return dataset_that_leaves(record.document()) if thing is None and record.deleted else thing


def _is(record: Record, kinds: Iterable[str], namespace: str, name: str) -> bool:
    reference = record.reference
    return reference.kind in kinds and (reference.namespace, reference.name) == (namespace, name)
