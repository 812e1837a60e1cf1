"""The orders to a backend for an operation: one a kind, complete, and without any secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.api.alluxio import AlluxioRuntime
from headrace.api.databackup import DataBackup
from headrace.api.dataload import DataLoad
from headrace.api.datamigrate import DataMigrate, DataPlace
from headrace.api.dataprocess import DataProcess, JobProcessor, ScriptProcessor
from headrace.api.dataset import Dataset, DatasetSpec
from headrace.api.identities import User
from headrace.api.kinds import Operation, Runtime
from headrace.api.metadata import ObjectMeta
from headrace.api.mounts import Mount, scheme_of
from headrace.plan import mount_addresses
from headrace.plan.backup_folders import refused_place
from headrace.plan.dataset_tree import tree_of
from headrace.plan.declared import Declared
from headrace.plan.observed import ClaimFacts, Observed
from headrace.plan.operation_policy import faults_of_copy, faults_of_process, not_allowed
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import SecretFile
from headrace.plan.runtimes import wanted_of
from headrace.settings.roles import OriginSettings

_WRITABLE = {"oss", "s3", "local"}
# What is written must be whole or absent, and read back as it was written.
_NOT_WRITTEN = {
    "nfs": "the NFS client only reads; mount the export on the nodes and copy to local:///FOLDER",
    "webhdfs": "HDFS is only read",
    "http": "web servers are only read",
}


@dataclass(frozen=True, slots=True)
class LoadPart:
    """Paths of the tree without their first slash (none for all of it), and how many workers keep each block."""

    paths: tuple[str, ...]
    replicas: int


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Loads of one dataset. It is complete when every owner was seen to hold every byte."""

    cluster: str
    parts: tuple[LoadPart, ...]
    refresh: bool
    pin: bool


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """One side of a copy: a dataset, read through its cluster; or an origin with its secrets."""

    cluster: str | None = None
    path: str = ""
    origin: OriginSettings | None = None
    secrets: tuple[SecretFile, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyJob:
    """Copies what the target lacks, or has otherwise, and compares it. Done again, it goes on."""

    source: CopyPlace
    target: CopyPlace
    parallelism: int


@dataclass(frozen=True, slots=True)
class ProcessJob:
    """A program that sees a dataset."""

    cluster: str
    mount_path: str
    sub_path: str
    program: ScriptProcessor | JobProcessor
    service_account: str | None


@dataclass(frozen=True, slots=True)
class BackupJob:
    """A backup of the list of a dataset's files, written to `address` (`local:///folder` or `nfs://…`)."""

    cluster: str
    address: str
    nodes: tuple[str, ...]
    run_as: User | None


Job = LoadJob | CopyJob | ProcessJob | BackupJob


@dataclass(frozen=True, slots=True)
class OperationContext:
    """The objects that an operation refers to: datasets and their runtimes by "namespace/name", and what the backend
    sees."""

    datasets: Mapping[str, Dataset]
    runtimes: Mapping[str, Runtime]
    observed: Observed


def job_of(operation: Operation, context: OperationContext) -> Job | Wait:
    """The order for an operation, or what it lacks."""
    match operation:
        case DataLoad():
            return _load(operation, context)
        case DataMigrate():
            return _copy(operation, context)
        case DataProcess():
            return _process(operation, context)
        case DataBackup():
            return _backup(operation, context)


def dataset_keys(operation: Operation) -> tuple[str, ...]:
    """The datasets that must be ready before the operation begins."""
    namespace = operation.namespace or "default"
    match operation:
        case DataLoad() | DataProcess():
            return (f"{operation.spec.dataset.namespace or namespace}/{operation.spec.dataset.name}",)
        case DataBackup():
            return (f"{namespace}/{operation.spec.dataset}",)
        case DataMigrate():
            sides = (operation.spec.source.dataset, operation.spec.to.dataset)
            return tuple(f"{side.namespace}/{side.name}" for side in sides if side)


def _load(operation: DataLoad, context: OperationContext) -> LoadJob:
    (key,) = dataset_keys(operation)
    by_replicas: dict[int, list[str]] = {}
    for target in operation.spec.target:
        by_replicas.setdefault(target.replicas, []).append(target.path.strip("/"))
    parts = tuple(LoadPart(_all_or(paths), replicas) for replicas, paths in sorted(by_replicas.items()))
    runtime = context.runtimes.get(key)
    pin = isinstance(runtime, AlluxioRuntime) and bool(runtime.spec.data and runtime.spec.data.pin)
    return LoadJob(key, parts or (LoadPart((), _replicas(runtime)),), operation.spec.load_metadata, pin)


def _all_or(paths: list[str]) -> tuple[str, ...]:
    return () if "" in paths else tuple(paths)


def _replicas(runtime: Runtime | None) -> int:
    return wanted_of(runtime).block_replicas if runtime else 1


def _process(operation: DataProcess, context: OperationContext) -> ProcessJob | Wait:
    (key,) = dataset_keys(operation)
    spec = operation.spec
    program = spec.processor.script or spec.processor.job
    if program is None:
        raise ValueError("a DataProcess has a script or a job")
    if faults := faults_of_process(spec.processor, context.observed.policy):
        return not_allowed(operation.name, faults)
    return ProcessJob(
        key,
        spec.dataset.mount_path,
        spec.dataset.sub_path or "",
        program,
        spec.processor.service_account_name,
    )


def _backup(operation: DataBackup, context: OperationContext) -> BackupJob | Wait:
    (key,) = dataset_keys(operation)
    place = operation.spec.backup_path
    if place is None:
        return wait(Reason.TARGET_NOT_SUPPORTED, f"backup {operation.name} says no backupPath")
    namespace = operation.namespace or "default"
    refused = refused_place(place, namespace, f"backupPath of {operation.name}", context.observed.policy)
    if refused is not None:
        return refused
    address, nodes = place, tuple[str, ...]()
    if scheme_of(place) == mount_addresses.CLAIM:
        name, folder = mount_addresses.claim_of(place)
        claim: ClaimFacts | None = context.observed.claims.get(name)
        if claim is None or not claim.address:
            return wait(
                Reason.CLAIM_MISSING, f"backup {operation.name} names claim {name}, which has no volume"
            )
        address, nodes = mount_addresses.below(claim.address, folder), claim.nodes
    return BackupJob(key, address, nodes, operation.spec.run_as)


def _copy(operation: DataMigrate, context: OperationContext) -> CopyJob | Wait:
    namespace = operation.namespace or "default"
    if faults := faults_of_copy(operation.spec, context.observed.policy):
        return not_allowed(operation.name, faults)
    source = _source(operation.spec.source, namespace, context)
    target = _target(operation.spec.to, namespace, context)
    if isinstance(source, Wait):
        return source
    if isinstance(target, Wait):
        return target
    return CopyJob(source, target, operation.spec.parallelism)


def _source(place: DataPlace, namespace: str, context: OperationContext) -> CopyPlace | Wait:
    if place.dataset is not None:
        key = f"{place.dataset.namespace}/{place.dataset.name}"
        if place.dataset.namespace != namespace:
            # Who may write objects of one namespace shall not carry off the data of another.
            return wait(
                Reason.SOURCE_NOT_SUPPORTED, f"dataset {key} is of another namespace than the migration"
            )
        return CopyPlace(cluster=key, path=(place.dataset.path or "/").strip("/"))
    return _origin(_external(place, namespace), "", context)


def _target(place: DataPlace, namespace: str, context: OperationContext) -> CopyPlace | Wait:
    """Where files are written: a folder of an origin, since a dataset itself is read-only."""
    path = ""
    if place.dataset is None:
        found = _origin(_external(place, namespace), "", context)
    else:
        key = f"{place.dataset.namespace}/{place.dataset.name}"
        path = (place.dataset.path or "/").strip("/")
        dataset = context.datasets.get(key)
        if dataset is None:
            return wait(Reason.DATASET_NOT_READY, f"dataset {key} does not exist")
        if place.dataset.namespace != namespace:
            # To write there takes the credentials of that namespace, which are not this one's to use.
            return wait(
                Reason.TARGET_NOT_SUPPORTED, f"dataset {key} is of another namespace than the migration"
            )
        found = _origin(dataset, path, context)
    if isinstance(found, CopyPlace) and found.origin is not None:
        scheme = scheme_of(found.origin.origin)
        kind = mount_addresses.KIND_OF_SCHEME.get(scheme)
        if kind not in _WRITABLE:
            why = _NOT_WRITTEN.get(kind or "", "only buckets and folders are written")
            return wait(Reason.TARGET_NOT_SUPPORTED, f"nothing can be written to {scheme}://: {why}")
    return found


def _external(place: DataPlace, namespace: str) -> Dataset:
    """External storage as a dataset of one mount, so that it is read by the same rules."""
    storage = place.external_storage
    if storage is None:
        raise ValueError("one side of a migration is a dataset or external storage")
    mount = Mount(mount_point=storage.uri, path="/", encrypt_options=storage.encrypt_options)
    return Dataset(
        metadata=ObjectMeta(name="external", namespace=namespace), spec=DatasetSpec(mounts=(mount,))
    )


def _origin(dataset: Dataset, path: str, context: OperationContext) -> CopyPlace | Wait:
    """The origin behind a path of a dataset: of the mount that the path is at or below."""
    declared = Declared(dataset, None, context.datasets)
    key = declared.key
    runtime = context.runtimes.get(key)
    tree = tree_of(declared, wanted_of(runtime) if runtime else None, context.observed)
    if isinstance(tree, Wait):
        return tree
    for origin in sorted(tree.origins, key=lambda origin: -len(origin.path)):
        if not origin.path or f"{path}/".startswith(f"{origin.path}/"):
            below = path.removeprefix(origin.path).strip("/")
            address = mount_addresses.below(origin.origin, below)
            secrets = tuple(file for file in tree.secrets if file.origin_path == origin.path)
            place = origin.for_reading().model_copy(update={"origin": address})
            return CopyPlace(origin=place, secrets=secrets)
    return wait(Reason.TARGET_NOT_SUPPORTED, f"/{path} of dataset {key} is no folder of a mount")
