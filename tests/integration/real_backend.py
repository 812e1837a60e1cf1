"""What a random walk over the local backend declares and does, and the comparison of the world with it afterwards.

The model knows only what people declared. Everything that is compared is read from the world itself: processes from
/proc, mounts from the kernel, files through the mounts, objects and statuses from the supervisor.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.local.datasets.dataset_layout import DatasetLayout
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle.guard_keeping import GUARD
from headrace.local.processes.process_tags import TaggedProcess, tagged_processes
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import BackendStatus, Declaration, Named
from headrace.process.stat import stat_of
from headrace.roles.mountpoint.detaching import mountpoints_below

from .harness import tree_of

NODES = 3
ON_SSD = {"node-1", "node-2"}
SECRET = "keys"
KINDS = ("Dataset", "AlluxioRuntime", "Secret", "PersistentVolume", "PersistentVolumeClaim")
Key = tuple[str, str]


@dataclass(frozen=True)
class Wanted:
    """One dataset as a person wants it; `parts` are the folders that it mounts."""

    parts: tuple[str, ...]
    replicas: int
    quota_mib: int = 64
    on_ssd: bool = False
    label: str = "a"
    has_dataset: bool = True
    has_runtime: bool = True

    @property
    def runs(self) -> bool:
        return self.has_dataset and self.has_runtime

    @property
    def workers(self) -> int:
        return min(self.replicas, len(ON_SSD) if self.on_ssd else NODES) if self.runs else 0


@dataclass
class Model:
    """All that is declared."""

    datasets: dict[Key, Wanted] = field(default_factory=dict)
    secrets: dict[str, int] = field(default_factory=dict)
    """By namespace, the version of the Secret that the bucket's mounts name; absent without one."""

    def lacks_secret(self, key: Key) -> bool:
        wanted = self.datasets[key]
        return wanted.has_dataset and "bucket" in wanted.parts and key[0] not in self.secrets


@dataclass(frozen=True)
class Storage:
    """Folders of this machine, and a bucket: what can be mounted."""

    folder: Path
    endpoint: str
    access_key_id: str
    secret_access_key: str
    bucket_files: dict[str, bytes]

    def mount(self, part: str) -> dict[str, Any]:
        if part != "bucket":
            return {"mountPoint": f"local://{self.folder / part}", "name": part}
        options = {"alluxio.underfs.s3.endpoint": self.endpoint, "aws.region": "us-east-1"}
        options["alluxio.underfs.s3.disable.dns.buckets"] = "true"
        secrets = [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": name}}}
            for name in ("aws.accessKeyId", "aws.secretKey")
        ]
        return {"mountPoint": "s3://data", "name": part, "options": options, "encryptOptions": secrets}

    def files(self, part: str) -> dict[str, bytes]:
        return self.bucket_files if part == "bucket" else tree_of(self.folder / part)


class RealWorld:
    """A local backend and what it may have made; actions, and the comparison."""

    def __init__(self, state: Path, caches: Path, storage: Storage) -> None:
        self.places = BackendLayout(state / "local")
        self.client = LocalClient(self.places)
        self.caches = caches
        self.storage = storage
        self.model = Model()
        self.instance = self.client.hello().instance
        self.stopped: list[int] = []

    # --- what people do ---

    def declare(self, key: Key, wanted: Wanted) -> None:
        """Applies the objects of one dataset."""
        self.model.datasets[key] = wanted
        objects = [self._dataset(key, wanted)] * wanted.has_dataset + [
            self._runtime(key, wanted)
        ] * wanted.has_runtime
        self._apply(objects)

    def delete(self, key: Key, *, dataset: bool, runtime: bool) -> None:
        """Asks for deletions, without waiting for them."""
        wanted = self.model.datasets[key]
        named = [Named(kind="Dataset", namespace=key[0], name=key[1])] * (dataset and wanted.has_dataset)
        named += [Named(kind="AlluxioRuntime", namespace=key[0], name=key[1])] * (
            runtime and wanted.has_runtime
        )
        # A dataset owns its runtime, if it was looked at in time: so that one stays, it is left as an orphan.
        for outcome in self.client.delete(named, cascade="background" if runtime else "orphan"):
            assert outcome.fault is None, outcome
        left = replace(
            wanted,
            has_dataset=wanted.has_dataset and not dataset,
            has_runtime=wanted.has_runtime and not runtime,
        )
        self.model.datasets[key] = left
        if not left.has_dataset and not left.has_runtime:
            del self.model.datasets[key]

    def set_secret(self, namespace: str, version: int) -> None:
        """Another version of the keys, which still opens the bucket."""
        self.model.secrets[namespace] = version
        values = {
            "aws.accessKeyId": self.storage.access_key_id,
            "aws.secretKey": self.storage.secret_access_key,
            "comment": str(version),
        }
        metadata = {"name": SECRET, "namespace": namespace}
        self._apply([{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}])

    def drop_secret(self, namespace: str) -> None:
        """The keys are gone."""
        if self.model.secrets.pop(namespace, None) is not None:
            self.client.delete([Named(kind="Secret", namespace=namespace, name=SECRET)])

    def kill_supervisor(self) -> None:
        """As `kill -9` does it; the next `up` is the caller's."""
        kill(self.client.hello().pid, signal.SIGKILL)

    def strike(self, which: float, how: signal.Signals) -> str:
        """Kills or stops one of the first processes of roles; `which` says which, from 0 to 1."""
        firsts = first_processes(tagged_processes(self.instance))
        processes = [firsts[role] for role in sorted(firsts)]
        if not processes:
            return "nobody"
        process = processes[int(which * len(processes))]
        if how is signal.SIGSTOP:
            self.stopped.append(process.pid)
        kill(process.pid, how)
        return process.role

    def thaw(self) -> None:
        """What was stopped goes on."""
        for pid in self.stopped:
            kill(pid, signal.SIGCONT)
        self.stopped.clear()

    # --- the comparison ---

    def faults(self) -> list[str]:
        """Where the world is not as declared; empty when all is well."""
        status = self.client.status()
        marked = [each for each in tagged_processes(self.instance) if each.role != GUARD]
        listed = {item["metadata"]["uid"]: item for item in self.client.objects(KINDS).items}
        objects = {
            (i["kind"], i["metadata"].get("namespace", ""), i["metadata"]["name"]): i for i in listed.values()
        }
        found = [*self._object_faults(objects), *self._process_faults(status, marked)]
        for key in self.model.datasets:
            mine = {
                line.id.rpartition(".")[2]: line
                for line in status.roles
                if (line.namespace, line.dataset) == key
            }
            found += [f"{'/'.join(key)}: {fault}" for fault in self._dataset_faults(key, mine, objects)]
        return [*found, *self._leftover_faults(status)]

    def _object_faults(self, objects: dict[tuple[str, str, str], Any]) -> Iterator[str]:
        wanted = {("Secret", namespace, SECRET) for namespace in self.model.secrets}
        for (namespace, name), each in self.model.datasets.items():
            wanted |= {("Dataset", namespace, name)} if each.has_dataset else set()
            wanted |= {("AlluxioRuntime", namespace, name)} if each.has_runtime else set()
        declared = {key for key in objects if not key[0].startswith("Persistent")}
        if declared != wanted:
            yield f"objects: {sorted(declared ^ wanted)} are not as declared"
        leaving = [key for key, item in objects.items() if "deletionTimestamp" in item["metadata"]]
        if leaving:
            yield f"objects: {leaving} are still being deleted"

    def _process_faults(self, status: BackendStatus, marked: list[TaggedProcess]) -> Iterator[str]:
        running = {line.id: line.pid for line in status.roles if line.state == "running"}
        first = {role: each.pid for role, each in first_processes(marked).items()}
        if running != first:
            yield f"processes: written down {running}, and in the world {first}"
        strangers = {each.role for each in marked} - running.keys()
        if strangers:
            yield f"processes: {strangers} are of nobody"
        owners = {(line.namespace, line.dataset) for line in status.roles}
        idle = {key for key, wanted in self.model.datasets.items() if not wanted.runs}
        if owners - self.model.datasets.keys() or owners & idle:
            yield f"processes: {sorted(owners)} have some"

    def _dataset_faults(
        self, key: Key, roles: dict[str, Any], objects: dict[tuple[str, str, str], Any]
    ) -> Iterator[str]:
        if any(line.state != "running" for line in roles.values()):
            yield f"has ended roles: {[line.id for line in roles.values() if line.state != 'running']}"
        wanted = self.model.datasets[key]
        dataset = objects.get(("Dataset", *key), {}).get("status", {})
        conditions = {each["type"]: each for each in dataset.get("conditions", ())}
        ready = conditions.get("Ready", {})
        if wanted.runs and self.model.lacks_secret(key):
            # What ran goes on; without a worker there is that to say first.
            runs = any(role.startswith("worker-") for role in roles)
            true = {"SecretMissing", "WorkersDisabled"} | (set() if runs else {"WorkersGone"})
            reasons = {ready.get("reason"), conditions.get("Degraded", {}).get("reason")}
            if not reasons & true:
                yield f"says {reasons}, and its Secret is missing"
            return
        if not wanted.runs:
            if wanted.has_dataset and (dataset.get("phase"), ready.get("reason")) != (
                "NotBound",
                "RuntimeMissing",
            ):
                yield f"has no runtime and says {dataset.get('phase')}, {ready.get('reason')}"
            return
        yield from self._service_faults(key, roles, objects, ready)

    def _service_faults(
        self, key: Key, roles: dict[str, Any], objects: dict[tuple[str, str, str], Any], ready: dict[str, str]
    ) -> Iterator[str]:
        wanted = self.model.datasets[key]
        workers = {line.node for role, line in roles.items() if role.startswith("worker-")}
        mounts = {line.node for role, line in roles.items() if role.startswith("mount-")}
        names = {role for role in roles if role.startswith("worker-")}
        if len(names) != wanted.workers or len(workers) != len(names) or "master" not in roles:
            yield f"runs {sorted(roles)} on {sorted(workers)}, and asks for {wanted.workers} workers and a master"
        if wanted.on_ssd and not workers <= ON_SSD:
            yield f"has workers on {sorted(workers)}"
        if not workers <= mounts:
            yield f"has workers on {sorted(workers)} and mounts on {sorted(mounts)}"
        if (ready.get("status") == "True") != bool(wanted.workers):
            yield f"has {wanted.workers} workers and says {ready}"
        yield from self._quota_faults(key, names)
        yield from self._status_faults(key, len(names), len(mounts), objects)
        if wanted.workers:
            yield from self._file_faults(key, mounts)

    def _quota_faults(self, key: Key, workers: set[str]) -> Iterator[str]:
        wanted = self.model.datasets[key].quota_mib << 20
        for worker in sorted(workers):
            try:
                settings = json.loads(DatasetLayout(self.places, key).settings(worker).read_bytes())
            except (OSError, ValueError) as error:
                yield f"{worker} has no settings: {error}"
                continue
            # FOLDER:BYTES:MEDIUM:MARKS
            if any(int(word.split(":")[1]) != wanted for word in settings["cache"]):
                yield f"{worker} has {settings['cache']} and is to have {wanted} bytes"

    def _status_faults(
        self, key: Key, workers: int, mounts: int, objects: dict[tuple[str, str, str], Any]
    ) -> Iterator[str]:
        wanted = self.model.datasets[key]
        runtime = objects.get(("AlluxioRuntime", *key), {}).get("status", {})
        said = [runtime.get(name) for name in _COUNTS]
        true = [wanted.replicas, workers, workers, mounts, mounts, mounts]
        if said != true:
            yield f"its runtime says {dict(zip(_COUNTS, said, strict=True))}, and true is {true}"
        if not wanted.workers:
            return
        dataset = objects.get(("Dataset", *key), {}).get("status", {})
        files = sum(len(self.storage.files(part)) for part in wanted.parts)
        if (dataset.get("phase"), dataset.get("fileNum")) != ("Bound", str(files)):
            yield f"says {dataset.get('phase')} with {dataset.get('fileNum')} files, and has {files}"
        claim = objects.get(("PersistentVolumeClaim", *key), {}).get("status", {}).get("phase")
        name = key[1] if key[0] == "default" else f"{key[1]}.{key[0]}"
        volume = objects.get(("PersistentVolume", "", name), {}).get("status", {}).get("phase")
        if (claim, volume) != ("Bound", "Bound"):
            yield f"its claim is {claim} and its volume {volume}"

    def _file_faults(self, key: Key, nodes: set[str]) -> Iterator[str]:
        parts = self.model.datasets[key].parts
        content = {part: self.storage.files(part) for part in parts}
        one = {f"{part}/{name}": data for part, files in content.items() for name, data in files.items()}
        for node in sorted(nodes):
            mountpoint = self.places.nodes / node / "mounts" / key[0] / key[1]
            try:
                there = tree_of(mountpoint)
            except OSError as error:
                yield f"cannot be read on {node}: {error}"
                continue
            if there != one:
                yield f"shows {sorted(there)} on {node}, and has {sorted(one)}"

    def _leftover_faults(self, status: BackendStatus) -> Iterator[str]:
        """Mounts, volumes, folders: those of what runs, and no others."""
        mounts = {
            f"{line.node}/mounts/{line.namespace}/{line.dataset}"
            for line in status.roles
            if line.role == "mount"
        }
        there = {
            str(Path(each).relative_to(self.places.nodes))
            for each in mountpoints_below(str(self.places.nodes))
        }
        if mounts != there:
            yield f"mounts: {sorted(mounts)} are written down, and {sorted(there)} are there"
        owners = {(line.namespace, line.dataset) for line in status.roles}
        folders = {tuple(each.name.split(".")) for each in _folders_at(self.places.folder / "datasets", 1)}
        if folders - owners:
            yield f"folders: {sorted(folders - owners)} are left"
        workers = {
            f"{line.namespace}/{line.dataset}/{line.node}" for line in status.roles if line.role == "worker"
        }
        caches = {str(each.relative_to(self.caches)) for each in _folders_at(self.caches, 3)}
        if caches - workers:
            yield f"caches: {sorted(caches - workers)} are left"

    # --- how it is written ---

    def _apply(self, objects: list[dict[str, Any]]) -> None:
        for outcome in self.client.declare(Declaration(verb="apply", objects=tuple(objects))):
            assert outcome.fault is None, outcome.fault

    def _dataset(self, key: Key, wanted: Wanted) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "placement": "Shared",
            "mounts": [self.storage.mount(part) for part in wanted.parts],
        }
        if wanted.on_ssd:
            expressions = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
        return _object("Dataset", key, spec, {"team": wanted.label})

    def _runtime(self, key: Key, wanted: Wanted) -> dict[str, Any]:
        level = {"mediumtype": "SSD", "path": str(self.caches), "quota": f"{wanted.quota_mib}Mi"}
        spec = {"replicas": wanted.replicas, "tieredstore": {"levels": [level]}}
        return _object("AlluxioRuntime", key, spec, {"team": wanted.label})


_COUNTS = (
    "desiredWorkerNumberScheduled",
    "currentWorkerNumberScheduled",
    "workerNumberReady",
    "desiredFuseNumberScheduled",
    "currentFuseNumberScheduled",
    "fuseNumberReady",
)


def _object(kind: str, key: Key, spec: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": key[1], "namespace": key[0], "labels": labels}
    return {"apiVersion": "data.fluid.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _folders_at(folder: Path, depth: int) -> list[Path]:
    """What lies so deep below a folder; any of it may be taken away meanwhile."""
    if depth == 0:
        return [folder]
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [found for name in sorted(names) for found in _folders_at(folder / name, depth - 1)]


def first_processes(tagged: Iterable[TaggedProcess]) -> dict[str, TaggedProcess]:
    """Of each role the process that no other of the role has started, or none that lives: it leads the others.

    A mount goes on in the process that its supervisor had started, when that is killed.
    """
    tagged = list(tagged)
    roles = {each.pid: each.role for each in tagged}
    stats = {each: stat_of(each.pid) for each in tagged}
    return {each.role: each for each, stat in stats.items() if stat and roles.get(stat.parent) != each.role}


def kill(pid: int, number: signal.Signals) -> None:
    """One process that may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
