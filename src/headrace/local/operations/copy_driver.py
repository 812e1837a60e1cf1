"""Copies between datasets and storage: each a process of its own on a node, followed by the file that it writes.

Its ledger stays with the operation, so that a run after a kill, and the next run of a schedule, go on.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headrace.api.dataset import Dataset
from headrace.api.kinds import Operation
from headrace.control.cluster_token import read_token
from headrace.control.rights import Rights, derive
from headrace.errors import BusyError
from headrace.local.datasets.dataset_layout import layout_of
from headrace.local.datasets.desired_state import DesiredState, title_of
from headrace.local.datasets.masters import Masters
from headrace.local.datasets.rendering import master_url
from headrace.local.datasets.secret_files import secret_content
from headrace.local.nodes.managed_folders import remove_tree
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.operations.job_driver import Task
from headrace.local.operations.job_processes import role_of, start_job
from headrace.local.processes.private_files import make_private_folder, write_private
from headrace.local.processes.role_processes import RoleRecord
from headrace.netns.loopback import loopback_ports
from headrace.operations.copy_facts import facts_of_ended, facts_of_running
from headrace.operations.run_notes import Note
from headrace.operations.work import uid_of
from headrace.plan.job_specs import CopyJob, CopyPlace
from headrace.plan.operation_inputs import JobFacts, JobState
from headrace.roles.processes.progress import CopyProgress, read_progress

if TYPE_CHECKING:
    from headrace.local.context import BackendContext

_PROGRAM = (sys.executable, "-P", "-m", "headrace.cli.main", "copy", "--config")
_FILES_PER_PROCESS = 16
_MOST_FILES = 1024
_GRACE_S = 20.0
# A process that ends so often without a word does not end by chance.
_STARTS_MAX = 10


@dataclass(frozen=True, slots=True)
class CopyDriver:
    """The work of DataMigrates."""

    context: BackendContext
    masters: Masters

    async def begin(self, task: Task, job: CopyJob, note: Note) -> Note:
        """Starts the process of a run, unless it runs already."""
        role = role_of(task.record)
        present = self.context.roles.get(role)
        if present is None or present.state != "running":
            if present is not None and present.order.version != task.run:
                self.context.roles.forget(role)
            node = self._node(job)
            settings = await asyncio.to_thread(self._render, task, job, node)
            self._start(role, task, settings, node)
        return note.with_details(role=role)

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        """The report of the process; `None` when it ended without a last word, and goes on when it is started again."""
        role = note.details.get("role")
        record = self.context.roles.get(role) if role else None
        if record is None or record.order.version != note.run:
            return None
        progress = await asyncio.to_thread(read_progress, self._progress(uid_of(operation), note.run))
        if record.state == "running" or (progress is not None and progress.state != "running"):
            return facts_of(note, progress)
        return _lost(note, record)

    async def cancel(self, operation: Operation, note: Note) -> bool:  # noqa: ARG002
        """Ends the process, which takes away what it has begun at the target."""
        role = note.details.get("role")
        if role and self.context.roles.get(role) is not None:
            await self.context.roles.stop(role, grace_s=_GRACE_S)
        return True

    async def forget(self, operation: Operation, note: Note) -> None:
        """Takes away settings, secrets, ledger and log."""
        role = note.details.get("role")
        record = self.context.roles.get(role) if role else None
        if record is not None:
            await self.context.roles.stop(record.order.id, grace_s=_GRACE_S)
            await asyncio.to_thread(Path(record.order.log_file).unlink, missing_ok=True)
        await asyncio.to_thread(remove_tree, self._folder(uid_of(operation)))

    def _folder(self, uid: str) -> Path:
        return self.context.layout.folder / "operations" / uid

    def _progress(self, uid: str, run: str) -> Path:
        return self._folder(uid) / f"progress-{run}.json"

    def _node(self, job: CopyJob) -> VirtualNode:
        """Near the master of the dataset that is read, else the first one."""
        nodes = self.context.nodes.all()
        if not nodes:
            raise BusyError.of("there is no node to copy on")
        near = self.masters.node(job.source.cluster) if job.source.cluster else None
        return next((node for node in nodes if node.name == near), nodes[0])

    def _render(self, task: Task, job: CopyJob, node: VirtualNode) -> Path:
        """Writes what the process reads. Raises `ConfigError` for a Secret that lost a key."""
        folder = make_private_folder(self._folder(task.record.uid))
        settings: dict[str, Any] = {
            **self._source(task, job.source, folder),
            "target": _storage(task, job.target, folder / "secrets" / "target.json"),
            "files": min(_FILES_PER_PROCESS * job.parallelism, _MOST_FILES),
            "node": node.name,
            "state_directory": str(folder / "state"),
            "progress_file": str(self._progress(task.record.uid, task.run)),
        }
        node.lend(loopback_ports(_words_of(settings.get("source"), settings["target"])))
        path = folder / "settings.yaml"
        write_private(path, json.dumps(settings, indent=1).encode())
        return path

    def _source(self, task: Task, place: CopyPlace, folder: Path) -> dict[str, Any]:
        if place.cluster is None:
            return {"source": _storage(task, place, folder / "secrets" / "source.json")}
        cluster = layout_of(self.context.layout, place.cluster)
        master = master_url(cluster, self.masters.addresses)
        if master is None:
            raise BusyError.of(
                f"dataset {place.cluster} has no master of its own", hint="copy the dataset that it refers to"
            )
        token = folder / "secrets" / "token"
        write_private(token, derive(read_token(cluster.token), Rights.READER).get_secret_value().encode())
        return {"master": master, "token_file": str(token), "source_path": place.path}

    def _start(self, role: str, task: Task, settings: Path, node: VirtualNode) -> None:
        self._progress(task.record.uid, task.run).unlink(missing_ok=True)
        command = (*_PROGRAM, str(settings))
        start_job(self.context, role, task.desired.title, node, command=command, run=task.run)


def _storage(task: Task, place: CopyPlace, secret_file: Path) -> dict[str, Any]:
    """An origin with the file of its credentials."""
    if place.origin is None:
        raise ValueError("a place of a copy is a dataset or an origin")
    content = place.origin.model_dump(mode="json", exclude_none=True) | {"path": ""}
    for file in place.secrets:
        # Secrets are those of the operation's own namespace, whichever dataset it is planned with.
        desired = replace(task.desired, key=(task.record.reference.namespace, task.desired.key[1]))
        write_private(secret_file, secret_content(file, desired, _datasets(desired)))
        content["secret_file"] = str(secret_file)
    return content


def _words_of(*storages: Mapping[str, Any] | None) -> Iterator[str]:
    """What may name a host: addresses, options, and what stands beside the keys, where an endpoint may be, too."""
    for storage in storages:
        if storage is not None:
            yield from (storage["origin"], *storage.get("options", {}).values())
            if "secret_file" in storage:
                yield from map(str, json.loads(Path(storage["secret_file"]).read_bytes()).values())


def _datasets(desired: DesiredState) -> dict[str, Dataset]:
    understood = ((title_of(record), record.understood()) for record in desired.of("Dataset"))
    return {title: cast("Dataset", thing) for title, thing in understood if thing is not None}


def facts_of(note: Note, progress: CopyProgress | None) -> JobFacts:
    """The facts by the last report of its process."""
    if progress is None:
        return note.facts(JobState.STARTING)
    if progress.state == "running":
        return note.facts(JobState.RUNNING, **facts_of_running(progress))
    return facts_of_ended(note, progress)


def _lost(note: Note, record: RoleRecord) -> JobFacts | None:
    if record.starts < _STARTS_MAX:
        return None
    return note.facts(
        JobState.FAILED,
        message=f"its process ended {record.starts} times without a word; its log is {record.order.log_file}",
    )
