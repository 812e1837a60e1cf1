"""Processes of roles on the virtual nodes: started, watched, found again after a kill of whoever started them.

A role outlives the supervisor. It is written down before it is started; between the two its tag finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from headrace.api.times import format_time
from headrace.local.layout import LOCK
from headrace.local.processes.child_environment import child_environment
from headrace.local.processes.mount_successors import successor_of
from headrace.local.processes.process_tags import TaggedProcess, end, tag_of, tagged_processes
from headrace.local.store.database import Database
from headrace.local.store.rows import readable
from headrace.process.stat import started_ticks
from headrace.settings.environment import BACKEND_LOCK, ROLE_MARK, Environment
from headrace.trusted_folders import make_folder, open_file

_log = logging.getLogger("headrace.local")

_REAPED_WITHIN_S = 1.0

RoleKind = Literal["master", "worker", "mount", "job"]
RoleState = Literal["recorded", "running", "ended"]
TRAINING_PREFIX = "training:"
"""What the names of processes of training jobs begin with; no namespace has a colon."""

ORDER_OF_ENDS: tuple[RoleKind, ...] = ("job", "mount", "worker", "master")


@dataclass(frozen=True, slots=True)
class RoleOrder:
    """A process that shall run. Neither command nor environment holds a secret."""

    id: str
    namespace: str
    dataset: str
    kind: RoleKind
    node: str
    command: tuple[str, ...]
    log_file: str
    version: str = ""
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class RoleRecord:
    """A process as it is written down. `exit_code` is unknown of one that another supervisor had started."""

    order: RoleOrder
    state: RoleState = "recorded"
    pid: int = 0
    started_ticks: int = 0
    since: str = ""
    starts: int = 0
    exit_code: int | None = None


class RoleProcesses:
    """All roles of one backend, for one event loop. Nothing in it waits but `stop`, and `forget` a second at most."""

    def __init__(
        self, database: Database, environment: Environment, on_end: Callable[[RoleRecord], None] | None = None
    ) -> None:
        self._database = database
        self._environment = environment
        self._on_end = on_end
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._watches: dict[str, int] = {}
        self._ends: dict[str, asyncio.Event] = {}
        self._records = {record.order.id: record for record in read_roles(database)}

    def all(self) -> list[RoleRecord]:
        """The recorded roles."""
        return [self._records[role] for role in sorted(self._records)]

    def get(self, role: str) -> RoleRecord | None:
        """One of them."""
        return self._records.get(role)

    def recover(self, known: Collection[str] = ()) -> None:
        """Takes over what runs from before: by its number, or by its tag. Processes without a record are ended, but for
        those with a `known` tag, which are somebody else's.
        """
        firsts = {each.role: each for each in tagged_processes(self._database.instance) if each.is_first}
        for record in self.all():
            self._recover(record, firsts.get(record.order.id) or self._successor(record))
        strangers = [
            each
            for each in tagged_processes(self._database.instance)
            if each.role not in self._records and each.role not in known
        ]
        end(strangers, signal.SIGKILL)

    def start(self, order: RoleOrder, prefix: tuple[str, ...] = ()) -> RoleRecord:
        """Starts a process, which runs until it is stopped or ends by itself. One of its id must not run.

        `prefix` puts it onto its node. Raises `OSError` when the program cannot be started.
        """
        before = self._records.get(order.id)
        if before is not None and before.state == "running":
            raise ValueError(f"the role {order.id} runs already")
        record = self._write(RoleRecord(order, starts=before.starts + 1 if before else 1, since=_now()))
        process = self._spawn(order, prefix)
        ticks = started_ticks(process.pid) or 0
        self._children[order.id] = process
        record = self._write(replace(record, state="running", pid=process.pid, started_ticks=ticks))
        self._watch(record)
        _log.info("role/%s: started on %s, process %d", order.id, order.node, process.pid)
        return record

    async def stop(self, role: str, *, grace_s: float = 10.0) -> None:
        """Ends a role with all that it started: SIGTERM, SIGKILL after the grace. Then it is forgotten."""
        ended = self._ends.get(role)
        if ended is not None:
            end(self._processes(role, firsts_alone=True), signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), grace_s)
        while alive := self._processes(role):
            end(alive, signal.SIGKILL)
            await asyncio.sleep(0.05)
        self.forget(role)

    def forget(self, role: str) -> None:
        """Strikes a role that does not run."""
        self._unwatch(role)
        if child := self._children.pop(role, None):
            # Its tag goes with its memory, a moment before it can be waited for; a disk that hangs keeps it longer.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_REAPED_WITHIN_S)
        if self._records.pop(role, None) is not None:
            with self._database.transaction() as connection:
                connection.execute("DELETE FROM roles WHERE id = ?", (role,))

    def close(self) -> None:
        """Watches no longer; the roles go on."""
        for role in list(self._watches):
            self._unwatch(role)
        for process in self._children.values():
            # We do not wait for it, and say so to the interpreter.
            process.returncode = 0

    def _spawn(self, order: RoleOrder, prefix: tuple[str, ...]) -> subprocess.Popen[bytes]:
        log = Path(order.log_file)
        make_folder(log.parent)
        descriptor = open_file(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        mark = {ROLE_MARK: tag_of(self._database.instance, order.id)}
        if order.kind == "mount":
            # Its supervisor outlives ours, and notices.
            mark[BACKEND_LOCK] = str(self._database.path.with_name(LOCK))
        try:
            return subprocess.Popen(
                [*prefix, *order.command],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env={**child_environment(self._environment), **(order.environment or {}), **mark},
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(descriptor)

    def _recover(self, record: RoleRecord, first: TaggedProcess | None) -> None:
        if record.pid and started_ticks(record.pid) == record.started_ticks:
            self._watch(record)
        elif first is not None:
            found = replace(record, state="running", pid=first.pid, started_ticks=first.started_ticks)
            self._watch(self._write(found))
        elif record.state != "ended":
            self._write(replace(record, state="ended", exit_code=None))
        if (role := self._records[record.order.id]).state == "running":
            _log.info("role/%s: taken over, process %d", role.order.id, role.pid)

    def _watch(self, record: RoleRecord) -> None:
        role = record.order.id
        self._unwatch(role)
        self._ends[role] = asyncio.Event()
        try:
            descriptor = os.pidfd_open(record.pid)
        except ProcessLookupError:
            asyncio.get_running_loop().call_soon(self._ended, role)
            return
        self._watches[role] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._ended, role)

    def _unwatch(self, role: str) -> None:
        descriptor = self._watches.pop(role, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._ends.pop(role, None)

    def _ended(self, role: str) -> None:
        child, ended = self._children.pop(role, None), self._ends.get(role)
        code = child.wait() if child is not None else None
        self._unwatch(role)
        if ended is not None:
            ended.set()
        record = self._records.get(role)
        if record is None:
            return
        if successor := self._successor(record):
            self._watch(
                self._write(replace(record, pid=successor.pid, started_ticks=successor.started_ticks))
            )
            _log.warning("role/%s: was killed, and goes on as process %d", role, successor.pid)
            return
        record = self._write(replace(record, state="ended", pid=0, started_ticks=0, exit_code=code))
        _log.info("role/%s: ended%s", role, "" if code is None else f" with {code}")
        if self._on_end is not None:
            self._on_end(record)

    def _successor(self, record: RoleRecord) -> TaggedProcess | None:
        return successor_of(self._processes(record.order.id)) if record.order.kind == "mount" else None

    def _processes(self, role: str, *, firsts_alone: bool = False) -> list[TaggedProcess]:
        """With `firsts_alone`, those that end the others, too, when they are told to end."""
        found = [each for each in tagged_processes(self._database.instance) if each.role == role]
        record = self._records.get(role)
        pid = record.pid if record is not None else 0
        return [each for each in found if each.is_first or each.pid == pid] if firsts_alone else found

    def _write(self, record: RoleRecord) -> RoleRecord:
        self._records[record.order.id] = record
        with self._database.transaction() as connection:
            content = json.dumps(asdict(record))
            connection.execute("INSERT OR REPLACE INTO roles VALUES (?, ?)", (record.order.id, content))
        return record


def read_roles(database: Database) -> list[RoleRecord]:
    """The roles that are written down. One that cannot be read is one that nobody wrote down."""
    with database.reading() as connection:
        rows = connection.execute("SELECT id, content FROM roles ORDER BY id").fetchall()
    return readable(rows, "role", _record)


def _record(content: dict[str, object]) -> RoleRecord:
    order = dict(content.pop("order"))  # type: ignore[call-overload]
    order["command"] = tuple(order["command"])
    return RoleRecord(RoleOrder(**order), **content)  # type: ignore[arg-type]


def _now() -> str:
    return format_time(datetime.now(UTC).replace(microsecond=0))
