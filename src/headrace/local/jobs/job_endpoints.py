"""The supervisor's answers about jobs."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from pydantic import BaseModel

from headrace.control.http_call import Call
from headrace.errors import BusyError, ConfigError, MissingFileError, TakenJobError
from headrace.jobs.environments import without_secrets
from headrace.jobs.known_words import taken_job
from headrace.jobs.spec import CleanPolicy, JobKind, JobSpec
from headrace.jobs.views import NodeRoom
from headrace.local.context import BackendContext
from headrace.local.jobs import job_admission, job_messages
from headrace.local.jobs.claim_views import claim_views
from headrace.local.jobs.job_logs import JobLogs
from headrace.local.jobs.job_reconciler import JobReconciler
from headrace.local.jobs.job_records import Happening, Instance, InstanceState, JobRecord, Stage, role_id
from headrace.local.jobs.job_store import spec_from_json
from headrace.local.jobs.job_views import is_held, view_of
from headrace.local.jobs.node_rooms import rooms_of
from headrace.local.server.http_server import Endpoint


class JobEndpoints:
    """The answers about jobs of one supervisor. Used from one event loop."""

    def __init__(self, context: BackendContext, runner: JobReconciler) -> None:
        self._context = context
        self._runner = runner
        self._job_store = runner.job_store
        self._logs = JobLogs(runner.job_store, context.layout)

    def all(self) -> list[Endpoint]:
        """For the server."""
        return [
            Endpoint("POST", "/v1/training/problems", self.problems),
            Endpoint("POST", "/v1/training", self.submit),
            Endpoint("GET", "/v1/training", self.jobs),
            Endpoint("POST", "/v1/training/delete", self.delete),
            Endpoint("POST", "/v1/training/release", self.release),
            Endpoint("POST", "/v1/training/entry", self.entry),
            Endpoint("GET", "/v1/training/logs", stream=self.logs),
            Endpoint("GET", "/v1/training/claims", self.claims),
            Endpoint("GET", "/v1/training/nodes", self.nodes),
        ]

    async def problems(self, call: Call) -> BaseModel:
        """The obstacles to a job."""
        asked = call.parse(job_messages.Submission)
        found = await self._problems(_spec_of(asked), asked.search_path)
        return job_messages.Sentences(sentences=tuple(found))

    async def submit(self, call: Call) -> BaseModel:
        """Creates a job: it is on the disk when this is answered."""
        asked = call.parse(job_messages.Submission)
        spec = _spec_of(asked)
        found = await self._problems(spec, asked.search_path)
        if self._job_store.select(spec.namespace, spec.name, spec.kind):
            raise TakenJobError.of(found[0])
        if found:
            raise ConfigError.of("; ".join(found))
        record = _record_of(spec, asked.search_path)
        await asyncio.to_thread(self._job_store.keep_spec, record.uid, spec)
        # Nothing was awaited since the name was looked for but the writing of files.
        if self._job_store.select(spec.namespace, spec.name, spec.kind):
            await asyncio.to_thread(self._job_store.strike, record.uid)
            raise TakenJobError.of(taken_job(spec))
        self._job_store.write(record)
        self._runner.enqueue(record.uid)
        return job_messages.JobViews(jobs=(view_of(record),))

    async def jobs(self, call: Call) -> BaseModel:
        """Jobs of a namespace, a name, a kind; the newest first."""
        kind = JobKind(call.query["kind"]) if call.query.get("kind") in set(JobKind) else None
        name, namespace = call.query.get("name", ""), call.query.get("namespace") or None
        found = await asyncio.to_thread(self._job_store.select, namespace, name, kind)
        if uid := call.query.get("uid"):
            found = [each for each in found if each.uid == uid]
        events = call.query.get("events") == "1"
        return job_messages.JobViews(jobs=tuple(view_of(each, events=events) for each in reversed(found)))

    async def delete(self, call: Call) -> BaseModel:
        """Ends and deletes a job; it is gone when no more is said of it."""
        asked = call.parse(job_messages.JobName)
        await self._runner.change(asked.uid, lambda record: record.changed(is_leaving=True))
        return asked

    async def release(self, call: Call) -> BaseModel:
        """Starts a job that waits for its data; ends what an ended one has left running."""
        asked = call.parse(job_messages.JobName)
        done: list[str] = []

        def change(record: JobRecord) -> JobRecord:
            if is_held(record):
                done.append(f"{record.title} starts without waiting any longer")
                let_go = {"wait_warm_percent": 0, "suspend": False}
                return record.changed(spec=record.spec.model_copy(update=let_go))
            if record.stage is Stage.ENDED and any(not each.state.has_ended for each in record.instances):
                done.append(f"what {record.title} had left running is ended")
                spec = record.spec.model_copy(update={"clean_policy": CleanPolicy.ALL})
                return record.changed(spec=spec, stage=Stage.CLOSING)
            if record.stage is not Stage.ENDED and record.started is not None:
                raise ConfigError.of(
                    f"job {record.title} runs: its data is released when it ends", hint="arena delete ends it"
                )
            return record

        await self._runner.change(asked.uid, change)
        return job_messages.Sentences(sentences=tuple(done))

    async def entry(self, call: Call) -> BaseModel:
        """The entry of a program that shall run in an instance."""
        asked = call.parse(job_messages.EntryWish)
        record = self._job_store.find(asked.uid)
        if record is None:
            raise MissingFileError.of("the job is gone", hint="arena list")
        instance = _instance_of(record, asked.instance)
        role = self._context.roles.get(role_id(record.uid, instance.name))
        if role is None or role.state != "running" or instance.state is not InstanceState.RUNNING:
            raise BusyError.of(
                f"{instance.name} does not run now: it is {instance.state.value}", hint="arena get shows when"
            )
        instance_setup = await self._runner.executor.instance_setup(record)
        return job_messages.Entry(
            pid=role.pid,
            started_ticks=role.started_ticks,
            folder=record.spec.working_dir,
            environment=instance_setup.variables(instance),
            is_apart=instance_setup.is_apart,
        )

    async def logs(self, call: Call) -> AsyncIterator[bytes]:
        """Lines of a job."""
        asked = job_messages.LogQueryText.model_validate(
            {name: value for name, value in call.query.items() if value}
        )
        async for piece in self._logs.read(asked):
            yield piece

    async def claims(self, call: Call) -> BaseModel:
        """Volumes that jobs may name."""
        namespace = call.query.get("namespace") or None
        found = await asyncio.to_thread(claim_views, self._context.store, namespace)
        return job_messages.ClaimViews(claims=tuple(found))

    async def nodes(self, _: Call) -> BaseModel:
        """Nodes, and what jobs have of them."""
        return job_messages.NodeRooms(nodes=tuple(self._rooms()))

    def _rooms(self) -> Sequence[NodeRoom]:
        return rooms_of(self._context.nodes.all(), self._job_store.all())

    async def _problems(self, spec: JobSpec, search_path: str) -> list[str]:
        """Sentences. A job of the name is always the first."""
        same = self._job_store.select(spec.namespace, spec.name)
        here = job_admission.AdmissionContext(
            taken=frozenset(each.spec.kind for each in same),
            volumes=await self._runner.data.volumes(spec),
            sites=await self._runner.data.sites(spec),
            rooms=self._rooms(),
            state_folder=self._context.layout.folder,
            search_path=search_path,
            is_root=os.geteuid() == 0,
        )
        return await asyncio.to_thread(lambda: list(job_admission.problems(spec, here)))


def _spec_of(asked: job_messages.Submission) -> JobSpec:
    return spec_from_json(json.dumps(asked.spec).encode())


def _record_of(spec: JobSpec, search_path: str) -> JobRecord:
    now = datetime.now(UTC)
    kept = without_secrets(spec)
    told = [Happening(at=now, type="Normal", reason="Submitted", message="it was submitted")]
    told += [
        Happening(at=now, type="Normal", reason="Ignored", message=each)
        for each in job_admission.notices(spec)
    ]
    return JobRecord(
        uid=uuid.uuid4().hex, spec=kept, created=now, search_path=search_path, happenings=tuple(told)
    )


def _instance_of(record: JobRecord, name: str) -> Instance:
    found = record.find(name) if name else record.chief
    if found is None:
        known = ", ".join(each.name for each in record.instances)
        raise MissingFileError.of(
            f"job {record.spec.name} has no instance {name[:64]}",
            hint=f"there are {known}" if known else "none has begun yet",
        )
    return found
