"""The drivers of each kind of work for operations on Kubernetes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from headrace.kube.client import KubeClient
from headrace.operations.load_driver import LoadDriver, Masters
from headrace.operations.work import JobDriver, Work
from headrace.operator.mirror import Mirror
from headrace.operator.operations.backup_driver import BackupDriver
from headrace.operator.operations.copy_driver import CopyDriver
from headrace.operator.operations.job_driver import AnnotatedNotes, Task
from headrace.operator.operations.kubernetes_jobs import KubernetesJobs
from headrace.operator.operations.process_driver import ProcessDriver

_log = logging.getLogger("headrace.operator")


def work_of(client: KubeClient, mirror: Mirror, masters: Masters) -> Work[Task]:
    """The work for all operations."""
    kubernetes_jobs = KubernetesJobs(client, mirror)
    drivers: Mapping[str, JobDriver[Task, Any]] = {
        "load": LoadDriver(masters),
        "backup": BackupDriver(kubernetes_jobs),
        "copy": CopyDriver(kubernetes_jobs),
        "process": ProcessDriver(kubernetes_jobs),
    }
    return Work(drivers, AnnotatedNotes(client), _log)
