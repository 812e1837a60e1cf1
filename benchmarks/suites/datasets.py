"""Many datasets on one backend: how long until all are told of, what they cost while nothing happens.

A thousand masters, workers and mounts fit on no small machine, so a thousand datasets are declared that no node
matches: all of them are planned, and nothing runs.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks import rows_at_scale as rows
from benchmarks.samples import Row
from benchmarks.session import Session
from benchmarks.workloads.datasets import (
    Backend,
    memory_mib,
    processor_percent,
    running_backend,
    served_dataset,
    waiting_dataset,
)

SUBJECT = "headrace"
LIMIT_S = 600.0
SETTLE_S = 5.0
CHANGES = 5
ROLES = ("master", "worker", "mount")


def run(session: Session) -> None:
    """All rows of this group."""
    subject = next((one for one in session.contenders if one.name == SUBJECT), None)
    if subject is None:
        return
    count = session.scale.declared_datasets
    with session.attempt(subject, *rows.declared_rows(count)):
        session.say(f"{count:,} datasets declared at once")
        with running_backend(_folder(session)) as backend:
            _declared(session, backend, count)
    for served in session.scale.served_datasets:
        with session.attempt(subject, *rows.served_rows(served)):
            session.say(f"{served} datasets served at once")
            with running_backend(_folder(session)) as backend:
                _served(session, backend, served)


def _declared(session: Session, backend: Backend, count: int) -> None:
    objects = [each for number in range(count) for each in waiting_dataset(number)]
    start = time.perf_counter()
    backend.declare(objects)
    _add(session, rows.declared_answer(count), time.perf_counter() - start)
    backend.wait(lambda: backend.reasons() == ["NoNodeMatches"] * count, limit_s=LIMIT_S)
    _add(session, rows.declared_told(count), time.perf_counter() - start)
    time.sleep(SETTLE_S)
    supervisor = [backend.supervisor]
    _add(session, rows.declared_idle(count), processor_percent(supervisor, session.scale.idle_s))
    _add(session, rows.declared_memory(count), memory_mib(supervisor))
    for number in range(CHANGES):
        _add(session, rows.declared_change(count), 1000 * backend.scale(objects[2 * number + 1], 2))
        _add(session, rows.declared_get(count), backend.seconds_of("get", "dataset", "-A"))
    start = time.perf_counter()
    backend.delete(objects)
    _add(session, rows.declared_gone(count), time.perf_counter() - start)


def _served(session: Session, backend: Backend, count: int) -> None:
    data = backend.folder / "data"
    data.mkdir()
    (data / "file").write_bytes(b"x" * 100_000)
    objects = [
        each for number in range(count) for each in served_dataset(number, data, backend.folder / "cache")
    ]
    start = time.perf_counter()
    backend.declare(objects)
    backend.wait(lambda: backend.mounted() == count, limit_s=LIMIT_S)
    _add(session, rows.served_mounted(count), time.perf_counter() - start)
    time.sleep(SETTLE_S)
    roles = backend.roles()
    for role in ROLES:
        _add(session, rows.served_memory(count, role), memory_mib(roles[role]) / count)
    everything = [pid for pids in roles.values() for pid in pids]
    _add(
        session, rows.served_supervisor(count), processor_percent([backend.supervisor], session.scale.idle_s)
    )
    _add(session, rows.served_roles(count), processor_percent(everything, session.scale.idle_s) / count)
    start = time.perf_counter()
    backend.delete(objects)
    _add(session, rows.served_gone(count), time.perf_counter() - start)


def _add(session: Session, row: Row, value: float) -> None:
    session.samples.add(row, SUBJECT, value)


def _folder(session: Session) -> Path:
    """Short, since the address of a socket is; empty."""
    folder = session.work / "backend"
    shutil.rmtree(folder, ignore_errors=True)
    return folder
