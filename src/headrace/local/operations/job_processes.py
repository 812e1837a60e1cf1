"""Processes that do the work of operations: started once, followed whoever supervises, with a log and an exit code.

The runner spec (`headrace.local.operations.runner_spec`) says what such a process does; a file that it writes itself
says how far it is, so that a supervisor which was not there when it ended knows all the same.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import EngineError
from headrace.local.context import BackendContext
from headrace.local.nodes.managed_folders import remove_tree
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.operations.runner_spec import RunnerSpec, RunnerState, read_runner_state
from headrace.local.processes.private_files import make_private_folder, write_private
from headrace.local.processes.process_tags import end, tagged_processes
from headrace.local.processes.role_processes import RoleOrder
from headrace.local.store.records import Record

_log = logging.getLogger("headrace.local")

_PROGRAM = (sys.executable, "-P", "-m", "headrace.local.operations.job_runner")
_PREFIX = "operation."
_LONGEST_NAME = 128
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a run's process, and its last report."""

    is_running: bool
    state: RunnerState | None


def start_job(
    context: BackendContext, role: str, dataset: str, node: VirtualNode, *, command: tuple[str, ...], run: str
) -> None:
    """Starts the process of the run of an operation of a dataset (`namespace/name`) on a node.

    Raises `EngineError` when it cannot be started.
    """
    namespace, _, name = dataset.partition("/")
    order = RoleOrder(
        id=role,
        namespace=namespace,
        dataset=name,
        kind="job",
        node=node.name,
        command=command,
        log_file=str(node.folder / "logs" / f"{role}.log"),
        version=run,
    )
    try:
        context.roles.start(order, node.prefix)
    except OSError as error:
        raise EngineError.of(f"the process of {role} cannot be started: {error.strerror}") from None


class JobProcesses:
    """Starts and follows processes of operations. Used from one event loop."""

    def __init__(self, context: BackendContext) -> None:
        self._context = context

    def folder(self, uid: str) -> Path:
        """The folder of an operation's files, for its owner alone."""
        return self._context.layout.folder / "operations" / uid

    async def start(self, record: Record, dataset: str, node: VirtualNode, runner_spec: RunnerSpec) -> str:
        """Starts the process of a run on a node; its role. One that runs for the same operation goes on instead.

        `dataset` is `namespace/name`. Raises `EngineError` when it cannot be started.
        """
        role = role_of(record)
        present = self._context.roles.get(role)
        if present is not None and present.state == "running":
            return role
        await self.end_leftovers(role)
        folder = make_private_folder(self.folder(record.uid))
        (folder / "state.json").unlink(missing_ok=True)
        await asyncio.to_thread(write_private, folder / "errand.json", runner_spec.to_json())
        start_job(self._context, role, dataset, node, command=(*_PROGRAM, str(folder)), run=runner_spec.run)
        return role

    def status(self, uid: str, role: str, run: str) -> JobStatus | None:
        """Its state; `None` when it never began for this run: a process begins nothing before it says so."""
        record = self._context.roles.get(role)
        if record is None or record.order.version != run:
            return None
        said = read_runner_state(self.folder(uid) / "state.json")
        state = said if said is not None and said.run == run else None
        has_begun = record.state != "ended" or state is not None
        return JobStatus(record.state != "ended", state) if has_begun else None

    async def stop(self, role: str) -> None:
        """Ends it with all that it started, and forgets it."""
        if self._context.roles.get(role) is not None:
            await self._context.roles.stop(role, grace_s=_GRACE_S)

    async def end_leftovers(self, role: str) -> None:
        """Processes that it had started are ended with it."""
        while True:
            alive = await asyncio.to_thread(tagged_processes, self._context.database.instance)
            left = [each for each in alive if each.role == role]
            if not left:
                return
            end(left, signal.SIGKILL)
            await asyncio.sleep(0.05)

    def tidy(self, operations: Iterable[Record]) -> None:
        """Strikes what a supervisor left that died between the end of an operation and its tidying. Blocks."""
        known = list(operations)
        roles, uids = {role_of(record) for record in known}, {record.uid for record in known}
        for consumer in self._context.consumers.all():
            if not consumer.pid and consumer.id.startswith(_PREFIX) and consumer.id not in roles:
                self._context.consumers.end(consumer.id)
        for record in self._context.roles.all():
            is_own = record.order.kind == "job" and record.order.id.startswith(_PREFIX)
            if is_own and record.state == "ended" and record.order.id not in roles:
                self._context.roles.forget(record.order.id)
        folder = self._context.layout.folder / "operations"
        for each in folder.iterdir() if folder.is_dir() else ():
            if each.name not in uids:
                remove_tree(each)

    async def forget(self, uid: str, role: str | None) -> None:
        """Takes away its files and its log. It must not run."""
        if role is not None and (record := self._context.roles.get(role)) is not None:
            self._context.roles.forget(role)
            log = Path(record.order.log_file)
            for path in (log, log.with_name(f"{log.name}.1")):
                path.unlink(missing_ok=True)
        await self.clear(uid)

    async def clear(self, uid: str) -> None:
        """Takes away its files. It must not run, and its end must be written down."""
        await asyncio.to_thread(remove_tree, self.folder(uid))


def role_of(record: Record) -> str:
    """The name of an operation's process among all roles: more parts than those of datasets have."""
    reference = record.reference
    name = reference.name
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 13]}-{record.uid[:12]}"
    return f"{_PREFIX}{reference.namespace}.{reference.kind.lower()}.{name}"
