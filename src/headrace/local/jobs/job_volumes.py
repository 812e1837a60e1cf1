"""The data of a job and its place: datasets through their mounts on its nodes, claims of folders, plain folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from headrace.api.core import PersistentVolume, PersistentVolumeClaim
from headrace.api.dataset import Dataset, DatasetStatus
from headrace.jobs.spec import DataVolume, JobSpec
from headrace.local.datasets.dataset_layout import layout_of
from headrace.local.datasets.leaving import leaving_text
from headrace.local.layout import BackendLayout
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.reconciler import Dataset as Key
from headrace.local.store.object_store import Store
from headrace.local.store.records import Record, Reference
from headrace.plan.claims import address_of
from headrace.plan.condition_times import condition_of

_LOCAL = "local:///"


@dataclass(frozen=True, slots=True)
class Volume:
    """A named source of data: a dataset, or a folder of this machine; or neither, and why."""

    wish: DataVolume
    dataset: Key | None = None
    folder: str = ""
    problem: str = ""
    is_leaving: bool = False
    """It is being deleted: who uses it may go on, and nobody else may begin to."""

    def source(self, layout: BackendLayout, node: VirtualNode) -> str:
        """The folder of its files on a node."""
        if self.dataset is None:
            return self.folder
        return str(layout_of(layout, "/".join(self.dataset)).mountpoint(node))


def volumes_of(spec: JobSpec, store: Store) -> tuple[Volume, ...]:
    """The job's data as it is now. Blocks."""
    return tuple(_volume(each, spec.namespace, store) for each in spec.data)


def datasets_of(volumes: tuple[Volume, ...]) -> tuple[Key, ...]:
    """The datasets among them, each once."""
    return tuple(dict.fromkeys(each.dataset for each in volumes if each.dataset is not None))


def folders_of(spec: JobSpec) -> Iterator[str]:
    """The folders that must exist for the job's folders to appear at."""
    yield from (each.path for each in spec.data)
    yield from (each.path for each in spec.host_folders if each.path != each.host_path)


def files_of(spec: JobSpec) -> Iterator[str]:
    """The files that must exist for its configuration files to appear at."""
    yield from (each.path for each in spec.config_files)


def _volume(wish: DataVolume, namespace: str, store: Store) -> Volume:
    dataset = store.get(Reference("Dataset", namespace, wish.claim))
    if dataset is not None:
        key = (namespace, wish.claim)
        leaving = leaving_text(store, key)
        problem = f"{leaving}: apply it again when it is gone" if leaving else _unready(dataset)
        return Volume(wish, dataset=key, problem=problem, is_leaving=bool(leaving))
    claim = store.get(Reference("PersistentVolumeClaim", namespace, wish.claim))
    if claim is None:
        where = f"in namespace {namespace}"
        return Volume(
            wish,
            problem=f"there is neither a dataset nor a claim {wish.claim} {where}: see `arena data list`",
        )
    return _folder(wish, claim, store)


def _unready(record: Record) -> str:
    """What keeps a dataset from being used."""
    title = f"dataset {record.reference.namespace}/{record.reference.name}"
    thing = cast("Dataset | None", record.understood())
    if thing is None:
        return f"{title} makes no sense: see `headrace describe dataset {record.reference.name}`"
    status = thing.status or DatasetStatus()
    if status.phase == "Bound":
        return ""
    ready = condition_of(status.conditions, "Ready")
    why = f": {ready.reason}: {ready.message}" if ready is not None and ready.status != "True" else ""
    phase = getattr(status.phase, "value", status.phase) or "NotBound"
    return f"{title} is {phase}{why}: see `headrace describe dataset {record.reference.name}`"


def _folder(wish: DataVolume, record: Record, store: Store) -> Volume:
    title = f"claim {record.reference.namespace}/{wish.claim}"
    claim = cast("PersistentVolumeClaim | None", record.understood())
    if claim is None:
        return Volume(wish, problem=f"{title} makes no sense: see `headrace describe pvc {wish.claim}`")
    if record.deleted is not None:
        return Volume(wish, problem=f"{title} is being deleted", is_leaving=True)
    phase = claim.status.phase if claim.status else None
    if phase != "Bound" or not claim.spec.volume_name:
        return Volume(wish, problem=f"{title} is {phase or 'Pending'}: no PersistentVolume fits it yet")
    volume = store.get(Reference("PersistentVolume", "", claim.spec.volume_name))
    address = address_of(cast("PersistentVolume", read)) if volume and (read := volume.understood()) else ""
    if not address.startswith(_LOCAL):
        return Volume(
            wish,
            problem=f"{title} is no folder of this machine ({address or 'an unknown kind of volume'}): "
            "make a dataset of it with mountPoint pvc://",
        )
    folder = f"/{address.removeprefix(_LOCAL)}"
    if not Path(folder).is_dir():
        return Volume(wish, problem=f"{title}: there is no folder {folder}")
    return Volume(wish, folder=folder)
