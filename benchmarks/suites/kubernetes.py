"""On a Kubernetes: how long a dataset takes until programs may use it, and what the operator costs with many of them.

A thousand datasets that are served fit on no small machine. So those are declared whose master no node has room for:
the operator then holds and follows each Dataset, its runtime, Secret, ConfigMap, Service, StatefulSet and waiting pod.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks import rows_at_scale as rows
from benchmarks.native import LoopError
from benchmarks.session import Session
from benchmarks.workloads.kubernetes import Bed, running_bed
from headrace.testing.kubernetes.kubectl import KubectlError
from headrace.testing.kubernetes.programs import lacking

SUBJECT = "headrace"
ONCE_BEFORE = "first"
"""The name of a dataset that is not counted: what is read from disk for the first time is read by it."""
LOOKS = 4
LOOK_S = 10.0


def run(session: Session) -> None:
    """All rows of this group, where a cluster can run."""
    subject = next((one for one in session.contenders if one.name == SUBJECT), None)
    if subject is None:
        return
    count = session.scale.declared_datasets
    with session.attempt(subject, rows.KUBERNETES_BOUND, *rows.operator_rows(count)):
        if reason := lacking():
            raise LoopError(f"no Kubernetes can run here: {reason}")
        try:
            _measure(session, count)
        except (KubectlError, TimeoutError) as error:
            raise LoopError(f"{error}") from error


def _measure(session: Session, count: int) -> None:
    session.say("a Kubernetes with the chart")
    with running_bed(_folder(session)) as bed:
        bed.seconds_to_bound(ONCE_BEFORE)
        for number in range(session.scale.repetitions + 2):
            session.say(f"a dataset until it is Bound, {number + 1}")
            session.samples.add(rows.KUBERNETES_BOUND, SUBJECT, bed.seconds_to_bound(f"dataset-{number}"))
        _watch(session, bed, rows.operator_memory(0))
        session.say(f"{count:,} datasets declared at once")
        start = time.perf_counter()
        bed.declare(count)
        session.samples.add(rows.operator_made(count), SUBJECT, time.perf_counter() - start)
        _watch(session, bed, rows.operator_memory(count))


def _watch(session: Session, bed: Bed, row: rows.Row) -> None:
    """The operator's memory, some times while nothing changes."""
    for _ in range(LOOKS):
        time.sleep(LOOK_S)
        session.samples.add(row, SUBJECT, bed.operator_mib())


def _folder(session: Session) -> Path:
    """Short, since the addresses of sockets are; empty."""
    folder = session.work / "k8s"
    shutil.rmtree(folder, ignore_errors=True)
    return folder
