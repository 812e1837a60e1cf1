"""Programs that are run on a dataset: on the node that is best for it, with the dataset at the path that they want."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace

from headrace.api.kinds import Operation
from headrace.api.times import parse_time
from headrace.errors import DeadlineError, MissingFileError, UnsupportedError
from headrace.local.context import BackendContext
from headrace.local.datasets.candidates import Candidates, NodeWish
from headrace.local.datasets.dataset_layout import layout_of
from headrace.local.datasets.mount_probe import is_mounted
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.operations.containers import Pod, pod_of
from headrace.local.operations.job_driver import RunNotes, Task
from headrace.local.operations.job_processes import JobProcesses, role_of
from headrace.local.operations.runner_spec import RunnerState
from headrace.local.operations.volume_setup import VolumeSetup
from headrace.local.processes.consumers import Consumer
from headrace.local.reconciler import Dataset
from headrace.operations.run_notes import Note, moment
from headrace.operations.work import uid_of
from headrace.plan.job_specs import ProcessJob
from headrace.plan.node_choice import choose_node
from headrace.plan.operation_inputs import JobFacts, JobState

_POLL_S = 0.2
_MOUNTED_S = 600.0


@dataclass(frozen=True, slots=True)
class ProcessDriver:
    """The work of DataProcesses. One process a run; a run that has begun never begins again."""

    context: BackendContext
    notes: RunNotes
    candidates: Candidates
    follower: JobProcesses

    async def begin(self, task: Task, job: ProcessJob, note: Note) -> Note:
        """Takes a node, has the dataset mounted there, and starts the process."""
        if os.geteuid() != 0:
            raise UnsupportedError.of("only root can put files at the mountPath of one program")
        pod = pod_of(job.program)
        namespace, _, name = job.cluster.partition("/")
        key = (namespace, name)
        role = role_of(task.record)
        node = await self._node(role, key, pod)
        begun = note.with_details(role=role, node=node.name)
        self.notes.write(task.record.uid, begun)
        volume_setup = VolumeSetup(
            task=task,
            job=job,
            pod=pod,
            node=node,
            mountpoint=layout_of(self.context.layout, job.cluster).mountpoint(node),
            folder=self.follower.folder(task.record.uid),
            environment=self.context.environment,
        )
        self._use(task, role, node, key, volume_setup)
        try:
            await self._mounted(key, node)
            runner_spec = await asyncio.to_thread(volume_setup.runner_spec)
            await self.follower.start(task.record, job.cluster, node, runner_spec)
        except BaseException:
            if self.follower.status(task.record.uid, role, note.run) is None:
                self.context.consumers.end(role)
            raise
        return begun

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        """The state of the process."""
        uid, node = uid_of(operation), note.details.get("node")
        if note.ended:
            return note.facts(JobState.COMPLETE, node=node, exit_code=0)
        role = note.details.get("role")
        status = self.follower.status(uid, role, note.run) if role else None
        if role is None or status is None:
            return None
        if status.is_running:
            return note.facts(JobState.RUNNING, node=node)
        await self.follower.end_leftovers(role)
        self.context.consumers.end(role)
        facts = self._closed(uid, note, role, status.state)
        # What was made for it, values of Secrets among it, goes with it; its log stays.
        await self.follower.clear(uid)
        return facts

    def _closed(self, uid: str, note: Note, role: str, state: RunnerState | None) -> JobFacts:
        """Writes down how it ended."""
        if state is None or state.state == "running":
            return self._kept(uid, note.failed("its process was killed"), None)
        closed = replace(note, ended=state.ended or moment())
        if state.exit_code:
            why = f"{state.message} (headrace logs {_title(role)} shows more)"
            closed = replace(closed, fault=why)
        return self._kept(uid, closed, state.exit_code)

    async def cancel(self, operation: Operation, note: Note) -> bool:  # noqa: ARG002
        """Ends the process with all that it started."""
        role = note.details.get("role")
        if role is not None:
            await self.follower.stop(role)
            self.context.consumers.end(role)
        return True

    async def forget(self, operation: Operation, note: Note) -> None:
        """Takes away its files and its log."""
        role = note.details.get("role")
        await self.follower.forget(uid_of(operation), role)
        if role is not None:
            self.context.consumers.end(role)

    def _kept(self, uid: str, note: Note, code: int | None) -> JobFacts:
        kept = note.with_details(exit_code=code)
        self.notes.write(uid, kept)
        state = JobState.FAILED if kept.fault else JobState.COMPLETE
        return kept.facts(
            state,
            ended_at=parse_time(kept.ended),
            message=kept.fault,
            node=kept.details.get("node"),
            exit_code=code,
        )

    async def _node(self, role: str, key: Dataset, pod: Pod) -> VirtualNode:
        """Where it runs: where it was before a supervisor died, or the best node that it allows."""
        before = self.context.consumers.get(role)
        wish = NodeWish(before.node if before else pod.node, pod.labels, pod.tolerations)
        name = choose_node(await self.candidates.all((key,), wish))
        node = next((each for each in self.context.nodes.all() if each.name == name), None)
        if node is None:
            raise MissingFileError.of(
                "no node fits: nodeName, nodeSelector, taints or the runtime's fuse part exclude all that are ready"
            )
        return node

    def _use(self, task: Task, role: str, node: VirtualNode, key: Dataset, volume_setup: VolumeSetup) -> None:
        reference = task.record.reference
        self.context.consumers.begin(
            Consumer(
                id=role,
                title=f"{reference.kind} {reference.namespace}/{reference.name}",
                node=node.name,
                datasets=(key,),
                paths=(volume_setup.job.mount_path,),
                folders=volume_setup.folders,
            )
        )

    async def _mounted(self, key: Dataset, node: VirtualNode) -> None:
        deadline = asyncio.get_running_loop().time() + _MOUNTED_S
        while not await is_mounted(self.context, key, node):
            if asyncio.get_running_loop().time() >= deadline:
                raise DeadlineError.of(f"dataset {'/'.join(key)} does not come to be mounted on {node.name}")
            await asyncio.sleep(_POLL_S)


def _title(role: str) -> str:
    """`dataprocess/NAME`, and its namespace where it is not the usual one."""
    _, namespace, kind, name = role.split(".", 3)
    return f"{kind}/{name}" + ("" if namespace == "default" else f" -n {namespace}")
