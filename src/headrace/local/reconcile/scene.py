"""What the store says of one dataset: its declarations, and the objects of its namespace that they name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from headrace.api.dataset import Dataset, Placement
from headrace.api.kinds import KINDS, Operation, Runtime
from headrace.api.mounts import scheme_of
from headrace.local.reconciler import Dataset as Key
from headrace.local.records import Record, Reference
from headrace.local.store import Selection, Store
from headrace.plan import addresses
from headrace.plan.declared import Declared, chosen_runtime
from headrace.plan.orders import dataset_keys

RUNTIMES = ("AlluxioRuntime", "JindoRuntime")
OPERATIONS = ("DataLoad", "DataMigrate", "DataProcess", "DataBackup")
SHARED = ("Secret", "PersistentVolumeClaim", "PersistentVolume")


@dataclass(frozen=True, slots=True)
class Scene:
    """One dataset as it is declared at one moment. `declared` is `None` when neither it nor a runtime is there."""

    key: Key
    records: tuple[Record, ...]
    declared: Declared | None = None
    dataset: Record | None = None
    runtime: Record | None = None
    spares: tuple[Record, ...] = ()
    operations: tuple[Record, ...] = ()
    referrers: tuple[str, ...] = ()
    exclusive: frozenset[str] = field(default_factory=frozenset)

    @property
    def title(self) -> str:
        """`namespace/name`."""
        return "/".join(self.key)

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


def scene_of(store: Store, key: Key) -> Scene:
    """The scene of a dataset. Blocks."""
    records, _ = store.select(Selection(tuple(KINDS)))
    namespace, name = key
    datasets = {title_of(record): record for record in records if record.reference.kind == "Dataset"}
    runtimes = [record for record in records if _is(record, RUNTIMES, namespace, name)]
    dataset = datasets.get(f"{namespace}/{name}")
    things = {record.reference: cast("Runtime", record.thing()) for record in runtimes}
    thing = cast("Dataset", dataset.thing()) if dataset else None
    chosen = chosen_runtime(thing, things.values())
    parsed = {title: cast("Dataset", record.thing()) for title, record in datasets.items()}
    runtime = next((record for record in runtimes if things[record.reference] is chosen), None)
    return Scene(
        key=key,
        records=tuple(records),
        declared=Declared(thing, chosen, _references(thing, parsed)) if thing or chosen else None,
        dataset=dataset,
        runtime=runtime,
        spares=tuple(record for record in runtimes if record is not runtime),
        operations=tuple(record for record in records if _home(record) == key),
        referrers=tuple(title for title, each in parsed.items() if f"{namespace}/{name}" in _named(each)),
        exclusive=frozenset(
            title for title, each in parsed.items() if each.spec.placement is not Placement.SHARED
        ),
    )


def concerned(store: Store, changed: Reference) -> set[Key]:
    """The datasets that a change of an object may matter to."""
    namespace, name = changed.namespace, changed.name
    if changed.kind in RUNTIMES:
        return {(namespace, name)}
    records, _ = store.select(Selection(("Dataset", *OPERATIONS)))
    if changed.kind == "Dataset":
        title = f"{namespace}/{name}"
        referring = {_key(each) for each in records if _refers(each, title)}
        return {(namespace, name), *referring}
    near = [each for each in records if not namespace or each.reference.namespace == namespace]
    if changed.kind in OPERATIONS:
        return {home for each in near if (home := _home(each)) is not None}
    return {_key(each) for each in near if each.reference.kind == "Dataset"}


def title_of(record: Record) -> str:
    """`namespace/name`."""
    return f"{record.reference.namespace}/{record.reference.name}"


def _key(record: Record) -> Key:
    return _home(record) or (record.reference.namespace, record.reference.name)


def _home(record: Record) -> Key | None:
    """The dataset in whose looks an operation is planned: the first that it names."""
    if record.reference.kind not in OPERATIONS:
        return None
    keys = dataset_keys(cast("Operation", record.thing()))
    if not keys:
        return record.reference.namespace, record.reference.name
    namespace, _, name = keys[0].partition("/")
    return namespace, name


def _refers(record: Record, title: str) -> bool:
    if record.reference.kind == "Dataset":
        return title in _named(cast("Dataset", record.thing()))
    return title in dataset_keys(cast("Operation", record.thing()))


def _named(dataset: Dataset) -> frozenset[str]:
    """The datasets that a dataset refers to."""
    mounts = dataset.spec.mounts or ()
    return frozenset(
        addresses.dataset_of(mount.mount_point)[0]
        for mount in mounts
        if scheme_of(mount.mount_point) == addresses.DATASET
    )


def _references(dataset: Dataset | None, known: dict[str, Dataset]) -> dict[str, Dataset]:
    """The datasets that it refers to, and those that these refer to, as far as they exist."""
    found: dict[str, Dataset] = {}
    wanted: list[str] = sorted(_named(dataset)) if dataset else []
    while wanted:
        title = wanted.pop()
        if title in known and title not in found:
            found[title] = known[title]
            wanted += sorted(_named(known[title]))
    return found


def _is(record: Record, kinds: Iterable[str], namespace: str, name: str) -> bool:
    reference = record.reference
    return reference.kind in kinds and (reference.namespace, reference.name) == (namespace, name)
