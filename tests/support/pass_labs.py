"""Worlds for passes: one in memory, one of each backend's own parts. What a pass asks of them is noted, or fails."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import planned
import pytest
import yaml
from operator_context import SECRET, OperatorWorld

from headrace.api.kinds import KINDS, OPERATIONS, Operation
from headrace.api.manifests import read_objects
from headrace.api.times import parse_time
from headrace.errors import BusyError
from headrace.kube.client import KubeClient
from headrace.local.context import BackendContext
from headrace.local.layout import BackendLayout
from headrace.local.operations.job_driver import RunNotes
from headrace.local.processes.consumers import Consumer
from headrace.local.processes.role_processes import RoleOrder, RoleRecord
from headrace.local.protocol.messages import NodesWish
from headrace.local.reconcile import observer as local_observer
from headrace.local.reconcile.dataset_reconciler import LocalBackend
from headrace.local.store import admission
from headrace.local.store.database import Database
from headrace.local.store.event_log import EventLog
from headrace.local.store.records import Reference
from headrace.operations.run_notes import Note
from headrace.operations.work import Notes, Work, uid_of
from headrace.operator.operations.job_driver import AnnotatedNotes
from headrace.plan.job_specs import OperationContext
from headrace.plan.observed import ConsumerFacts, Observed, OtherWorker
from headrace.plan.operation_inputs import JobFacts, JobState, OperationInputs
from headrace.plan.outcome import Plan
from headrace.plan.refusals import dataset_that_leaves, operation_that_leaves
from headrace.plan.volume import Volume
from headrace.reconcile.dataset_reconciler import DatasetReconciler
from headrace.reconcile.world import Declarations, Refused, Statement, Subject
from headrace.settings.environment import Environment
from headrace.work_queue import ReconcileResult

KEY = ("default", "imagenet")
SPOILED = {
    "Dataset": {"accessModes": ["ReadWriteMany", "ReadWriteMany"]},
    "JindoRuntime": {"replicas": "many"},
    "DataLoad": {"dataset": {"name": "imagenet"}, "target": "everything"},
}
"""What the schema lets through and the model refuses."""
LOAD = """
apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata: {name: warm, namespace: default}
spec: {dataset: {name: imagenet, namespace: default}}
"""
SEED = planned.SEED.replace("replicas: 4", "replicas: 1")
ELSEWHERE = SEED.replace("  replicas: 1", "  fuse: {nodeSelector: {zone: elsewhere}}\n  replicas: 1")
"""The same, and mounts are not wanted where they are."""


class OutdatedError(BusyError):
    """Somebody wrote in between."""


@dataclass
class Driver:
    """The work of loads: as it is told to be."""

    tells: Callable[[Note], JobFacts | None] = lambda note: note.facts(JobState.RUNNING)
    said: list[str] = field(default_factory=list)

    async def begin(self, _task: object, _job: object, note: Note) -> Note:
        self.said.append("begin")
        return note

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        self.said.append(f"facts {operation.name}")
        return self.tells(note)

    async def cancel(self, _operation: Operation, _note: Note) -> bool:
        self.said.append("cancel")
        return False

    async def forget(self, _operation: Operation, _note: Note) -> None:
        self.said.append("forget")


class Spy:
    """A backend whose calls are noted; each may be made to fail, or something to happen right before it."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.trace: list[str] = []
        self.written: list[Statement] = []
        self.faults: dict[str, Exception] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.starting_s = 0.0

    async def begin(self, key: tuple[str, str], now: datetime) -> Any:
        world = await self.backend.begin(key, now)
        self.starting_s = world.starting_s
        return _SpiedWorld(world, self)

    def note(self, name: str) -> None:
        self.trace.append(name)
        if happens := self.before.pop(name, None):
            happens()
        if fault := self.faults.get(name):
            raise fault


class _SpiedWorld:
    def __init__(self, world: Any, spy: Spy) -> None:
        self._world, self._spy = world, spy

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._world, name)
        if name == "outdated":
            return (*found, OutdatedError)
        if not callable(found):
            return found
        if not inspect.iscoroutinefunction(found):
            return lambda *args, **more: (self._spy.note(name), found(*args, **more))[1]

        async def called(*args: Any, **more: Any) -> Any:
            if name == "write":
                args = (list(args[0]),)
                self._spy.written += args[0]
            self._spy.note(name)
            made = await found(*args, **more)
            answer = self._spy.answers.get(name)
            return made if answer is None else answer(made)

        return called


class _Base:
    """The common part. `look` is one pass over the dataset, after which the world goes on for a moment."""

    def __init__(self, backend: Any, notes: Notes) -> None:
        self.spy, self.driver = Spy(backend), Driver()
        log = logging.getLogger("headrace.test")
        self.work: Work[Any] = Work({"load": self.driver}, notes, log)
        self.reconciler = DatasetReconciler(self.spy, self.work, log)

    home_of_odd = KEY[1]
    """The dataset in whose passes an operation is that makes no sense."""

    async def _looked(self, name: str) -> ReconcileResult:
        self.spy.trace.clear()
        self.spy.written.clear()
        try:
            return await self.reconciler.reconcile("default", name)
        finally:
            await asyncio.gather(*self.work._starting.values())


# One machine


class _Processes:
    """Roles that run as soon as they are started."""

    def __init__(self) -> None:
        self.records: dict[str, RoleRecord] = {}

    def all(self) -> list[RoleRecord]:
        return list(self.records.values())

    def get(self, role: str) -> RoleRecord | None:
        return self.records.get(role)

    def start(self, order: RoleOrder, _prefix: object = ()) -> RoleRecord:
        since = f"{datetime.now(UTC) - timedelta(seconds=60):%Y-%m-%dT%H:%M:%SZ}"
        self.records[order.id] = RoleRecord(order, "running", len(self.records) + 1, 0, since, 1)
        return self.records[order.id]

    async def stop(self, role: str, *, grace_s: float = 0) -> None:
        del self.records[role]


class LocalLab(_Base):
    """The parts of the local backend, without processes and masters."""

    home_of_odd = "warm"

    def __init__(self, folder: Path, patches: pytest.MonkeyPatch) -> None:
        layout = BackendLayout(folder / "local")
        layout.make()
        self.context = BackendContext(Database(layout.database), layout, Environment.current())
        self.context.nodes.make(NodesWish(count=2, plain=True))
        self.roles = _Processes()
        self.context.roles = cast("Any", self.roles)
        self._folder = folder
        patches.setattr(local_observer, "_status", self._status)
        patches.setattr(local_observer, "_answering", self._answering)
        super().__init__(LocalBackend(self.context), RunNotes(self.context.database))
        self.context.store.on_change(lambda changed: [self._index.refresh(each) for each in changed])
        self.declare(SECRET)

    @property
    def _index(self) -> Any:
        return self.spy.backend.index

    async def _status(self, _observer: object, own: Iterable[RoleRecord]) -> Mapping[str, Any] | None:
        rows = [
            {
                "id": each.order.id.rpartition(".")[2],
                "node": each.order.node,
                "state": "active",
                "is_listed": True,
                "levels": [],
                "started_at_s": parse_time(each.since).timestamp(),
                "cached_bytes": 0,
            }
            for each in own
            if each.order.kind == "worker"
        ]
        if not any(each.order.kind == "master" for each in own):
            return None
        snapshot = {"version": 1, "files": 3, "data_bytes": 1000}
        return {
            "workers": rows,
            "snapshot": snapshot,
            "cached_bytes": 0,
            "capacity_bytes": 1,
            "has_listed": True,
        }

    async def _answering(self, mounts: Mapping[str, str]) -> frozenset[str]:
        return frozenset(mounts.values())

    def declare(self, text: str = SEED) -> None:
        documents = list(yaml.safe_load_all(text.replace("/var/lib/docker", str(self._folder))))
        for each in documents:
            if each["kind"] == "Dataset":
                each["spec"].pop("nodeAffinity")
            for level in each.get("spec", {}).get("tieredstore", {}).get("levels", ()):
                level["quota"] = "1Mi"
        with self.context.store.changing() as transaction:
            for thing in read_objects(yaml.safe_dump_all(documents), "test"):
                admission.apply(transaction, admission.wish_of(thing, "default"))

    def delete(self, kind: str, name: str = "imagenet") -> None:
        with self.context.store.changing() as transaction:
            transaction.delete(Reference(kind, "default", name))

    def force_away(self, kind: str) -> None:
        with self.context.store.changing() as transaction:
            transaction.set_finalizers(transaction.need(Reference(kind, *KEY)), ())
            transaction.delete(Reference(kind, *KEY))

    def spoil(self, kind: str, name: str = "imagenet") -> None:
        reference = Reference(kind, "default", name)
        with self.context.store.changing() as transaction:
            content = transaction.need(reference).content
            transaction.replace(reference, {**content, "spec": {**content["spec"], **SPOILED[kind]}})

    def use(self) -> None:
        node = next(each.order.node for each in self.roles.all() if each.order.kind == "mount")
        self.context.consumers.begin(Consumer("train", "a program", node, (KEY,), ("",)))

    def leave(self) -> None:
        self.context.consumers.end("train")

    def look(self, name: str = "imagenet") -> ReconcileResult:
        return asyncio.run(self._looked(name))

    def kinds(self) -> list[str]:
        return sorted(each.order.kind for each in self.roles.all())

    def has_volume(self) -> bool:
        return self.context.store.get(Reference("PersistentVolume", "", "imagenet")) is not None

    def is_there(self, kind: str, name: str = "imagenet") -> bool:
        return self.context.store.get(Reference(kind, "default", name)) is not None

    def reasons(self, kind: str, name: str = "imagenet") -> set[str]:
        status = self.context.store.need(Reference(kind, "default", name)).status or {}
        return {each.get("reason") for each in status.get("conditions", ())}

    def events(self) -> set[str]:
        about = Reference("Dataset", *KEY)
        return {each.reason for each in EventLog(self.context.database).select("default", about)}


# Kubernetes


class ClusterLab(_Base):
    """The parts of the operator, on a cluster in memory."""

    def __init__(self, patches: pytest.MonkeyPatch) -> None:
        self.world = OperatorWorld(patches)
        super().__init__(self.world.backend, AnnotatedNotes(cast("KubeClient", self.world.cluster)))

    def declare(self, text: str = SEED) -> None:
        self.world.declare(text)

    def delete(self, kind: str, name: str = "imagenet") -> None:
        self.world.cluster.remove((kind, "default", name))

    def force_away(self, kind: str) -> None:
        key = (kind, *KEY)
        # As `kubectl delete --cascade=orphan` does it once the finalizers are off.
        content = self.world.cluster.objects.pop(key)
        self.world.cluster.changes.append((kind, "DELETED", content))

    def spoil(self, kind: str, name: str = "imagenet") -> None:
        key = (kind, "default", name)
        content = self.world.cluster.objects[key]
        self.world.cluster._store(key, {**content, "spec": {**content["spec"], **SPOILED[kind]}})

    def use(self) -> None:
        self.world.use("train", next(node for name, node in self.world.pods().items() if "fuse@" in name))

    def leave(self) -> None:
        self.world.leave("train")

    def look(self, name: str = "imagenet") -> ReconcileResult:
        self.world.cluster.turn()
        self.world.sync()
        return asyncio.run(self._looked(name))

    def kinds(self) -> list[str]:
        pods = (each["metadata"] for each in self.world.cluster.of("Pod"))
        own = (each["labels"] for each in pods if each["namespace"] == "default")
        return sorted(each["app.kubernetes.io/component"] for each in own if each)

    def has_volume(self) -> bool:
        return ("PersistentVolume", "", "imagenet") in self.world.cluster.objects

    def is_there(self, kind: str, name: str = "imagenet") -> bool:
        return (kind, "default", name) in self.world.cluster.objects

    def reasons(self, kind: str, name: str = "imagenet") -> set[str]:
        status = (self.world.get(kind, name) or {}).get("status") or {}
        return {each.get("reason") for each in status.get("conditions", ())}

    def events(self) -> set[str]:
        events = self.world.cluster.of("Event")
        return {each["reason"] for each in events if each["involvedObject"]["name"] == "imagenet"}


# In memory


class MemoryLab(_Base):
    """The plainest world that a pass can be made in."""

    def __init__(self) -> None:
        self.processes = planned.World(None, None, planned.gpu_nodes(2))
        self.contents: dict[tuple[str, str], dict[str, Any]] = {}
        self.volume: Volume | None = None
        self.told: set[str] = set()
        self._notes: dict[str, Note] = {}
        super().__init__(self, self)

    async def begin(self, _key: object, _now: datetime) -> _MemoryWorld:
        return _MemoryWorld(self)

    def find(self, operation: Operation) -> Note | None:
        return self._notes.get(uid_of(operation))

    async def keep(self, operation: Operation, note: Note) -> None:
        self._notes[uid_of(operation)] = note

    async def strike(self, operation: Operation) -> None:
        self._notes.pop(uid_of(operation), None)

    def declare(self, text: str = SEED) -> None:
        for each in yaml.safe_load_all(text):
            at = each["kind"], each["metadata"]["name"]
            known = self.contents.get(at, {})
            metadata = {"uid": f"uid-{len(self.contents)}", **each["metadata"], **known.get("metadata", {})}
            self.contents[at] = {**known, **each, "metadata": metadata}

    def delete(self, kind: str, name: str = "imagenet") -> None:
        metadata = self.contents[(kind, name)]["metadata"]
        if not metadata.get("finalizers"):
            del self.contents[(kind, name)]
        else:
            metadata["deletionTimestamp"] = "2026-01-31T09:30:00Z"

    def force_away(self, kind: str) -> None:
        del self.contents[(kind, KEY[1])]

    def spoil(self, kind: str, name: str = "imagenet") -> None:
        self.contents[(kind, name)]["spec"] |= SPOILED[kind]

    def use(self) -> None:
        node = next(each.node for each in self.processes.seen.roles if each.role == "mount")
        self.processes.use(("train", str(node)))

    def leave(self) -> None:
        self.processes.use()

    def look(self, name: str = "imagenet") -> ReconcileResult:
        try:
            return asyncio.run(self._looked(name))
        finally:
            self.processes._live()

    def kinds(self) -> list[str]:
        return sorted(each.role for each in self.processes.seen.roles)

    def has_volume(self) -> bool:
        return self.volume is not None

    def is_there(self, kind: str, name: str = "imagenet") -> bool:
        return (kind, name) in self.contents

    def reasons(self, kind: str, name: str = "imagenet") -> set[str]:
        conditions = self.contents[(kind, name)].get("status", {}).get("conditions", ())
        return {each.get("reason") for each in conditions}

    def events(self) -> set[str]:
        return self.told


class _MemoryWorld:
    """A pass over it."""

    starting_s, outdated = 0.25, ()

    def __init__(self, lab: MemoryLab) -> None:
        self.lab, self.processes = lab, lab.processes
        understood: dict[str, Any] = {}
        refused, leaving = [], False
        for (kind, name), content in lab.contents.items():
            metadata = content["metadata"]
            is_leaving = "deletionTimestamp" in metadata
            leaving |= is_leaving and kind not in OPERATIONS
            try:
                understood[f"{kind}/{name}"] = (
                    KINDS[kind].model.model_validate(content, by_alias=True, by_name=False)
                    if kind in KINDS
                    else None
                )
            except ValueError:
                fault = BusyError.of("it makes no sense")
                operation = operation_that_leaves(content) if kind in OPERATIONS else None
                if kind == "Dataset" and is_leaving:
                    understood[f"{kind}/{name}"] = dataset_that_leaves(content)
                own = Subject(kind, "default", name, metadata["uid"])
                about = content if kind in OPERATIONS else lab.contents.get(("Dataset", name))
                told_of = Subject(about["kind"], "default", name, about["metadata"]["uid"]) if about else None
                status = (about or {}).get("status")
                refused.append(Refused(own, fault, is_leaving, told_of, status, operation))
        dataset, runtime = understood.get("Dataset/imagenet"), understood.get("JindoRuntime/imagenet")
        declared = planned.Declared(dataset, runtime) if dataset or runtime else None
        operations = tuple(each for name, each in understood.items() if name.startswith("DataLoad/"))
        self.declarations = Declarations(
            "default/imagenet", declared, (), operations, tuple(refused), leaving
        )

    async def observe(self) -> Observed:
        self.processes.dataset = self.processes.runtime = None
        return self.processes._observed()

    async def users(self) -> tuple[ConsumerFacts, ...]:
        return self.processes.seen.users

    def others(self) -> Mapping[str, tuple[OtherWorker, ...]]:
        return {}

    def reserve(self, plan: Plan | None) -> None:
        pass

    async def clear(self) -> bool:
        return True

    async def follow_volume(self, volume: Volume | None, *, in_use: bool, closes: bool) -> None:
        self.lab.volume = volume

    async def write(self, statements: Iterable[Statement]) -> None:
        for each in statements:
            at = each.about.kind, each.about.name
            if at not in self.lab.contents:
                continue
            self.lab.told |= {event.reason for event in each.events}
            if each.status is not None:
                self.lab.contents[at]["status"] = dict(each.status)
            if each.finalizers is not None:
                self._set_finalizers(at, each.finalizers)

    async def take(self, plan: Plan) -> float | None:
        self.processes._take(plan)
        return None

    def inputs(self, operation: Operation, job: JobFacts | None, hindrance: str) -> OperationInputs:
        declared = self.declarations.declared
        known = {"default/imagenet": declared.dataset} if declared and declared.dataset else {}
        context = OperationContext(known, {}, self.processes.seen)
        return OperationInputs(operation, context, None, job, hindrance=hindrance)

    def task(self, operation: Operation, run: str) -> str:
        return f"{operation.name} {run}"

    async def delete(self, operation: Operation) -> None:
        with contextlib.suppress(KeyError):
            self.lab.delete(operation.kind, operation.name)

    async def finish(self) -> None:
        pass

    def _set_finalizers(self, at: tuple[str, str], finalizers: tuple[str, ...]) -> None:
        metadata = self.lab.contents[at]["metadata"]
        metadata["finalizers"] = list(finalizers)
        if not finalizers and "deletionTimestamp" in metadata:
            del self.lab.contents[at]


Lab = MemoryLab | LocalLab | ClusterLab
"""A dataset in a world."""
