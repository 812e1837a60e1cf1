"""The obstacles to a job on this machine, and the parts of it that are ignored here: sentences that say what to do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headrace.jobs.known_words import taken_job
from headrace.jobs.planning import placement_problems
from headrace.jobs.spec import JobKind, JobSpec, Resources
from headrace.jobs.views import NodeRoom
from headrace.local.jobs.job_volumes import Volume
from headrace.local.jobs.replicas import replicas_of
from headrace.local.jobs.resource_limits import why_unlimited
from headrace.local.jobs.scheduler import CandidateNode, schedule

_AGENT_BREAKERS = " :"


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """The context in which a job is checked."""

    taken: frozenset[JobKind]
    """The kinds that have a job of its name."""
    volumes: Sequence[Volume]
    sites: Sequence[CandidateNode]
    rooms: Sequence[NodeRoom]
    state_folder: Path
    search_path: str
    is_root: bool


def problems(spec: JobSpec, here: AdmissionContext) -> Iterator[str]:
    """Each thing that keeps the job from running."""
    if spec.kind in here.taken:
        yield taken_job(spec)
    yield from (each.problem for each in here.volumes if each.problem)
    yield from placement_problems(spec, here.rooms, counts_gpus=False)
    placed = schedule(spec, replicas_of(spec, "", 1), here.sites)
    if placed.problem:
        yield placed.problem
    yield from _path_problems(spec, here)
    if spec.kind is JobKind.MPI:
        yield from _mpi_problems(here)
    if spec.code is not None:
        yield (
            "code is not fetched on this machine: have it in a folder, and name that with "
            "--data-dir FOLDER:PATH or --working-dir FOLDER"
        )


def notices(spec: JobSpec) -> Iterator[str]:
    """The parts that are accepted, and have no effect on one machine."""
    if spec.image or any(role.image for role in spec.roles):
        yield "images are not pulled: programs run with what this machine has"
    if spec.priority_class:
        yield f"priority {spec.priority_class} has no effect: jobs do not push each other aside"
    if spec.queue:
        yield f"queue {spec.queue} has no effect: there are no queues on one machine"
    if spec.gang:
        yield "gang scheduling is always on: a job begins when all its processes have nodes"
    if spec.scheduler:
        yield f"scheduler {spec.scheduler} has no effect"
    if spec.tensorboard is not None:
        yield f"TensorBoard is not started: run `tensorboard --logdir {spec.tensorboard.log_dir}`"
    if spec.rdma or spec.host_network or spec.host_ipc or spec.host_pid:
        yield "rdma and the host's network, IPC and processes have no effect: processes are the machine's own"
    if any(role.resources.devices for role in spec.roles):
        yield "devices have no effect: programs see those of the machine"
    if any(role.resources.gpus for role in spec.roles):
        yield "GPUs are counted as slots for ranks, and not given out: programs see those of the machine"
    if any(_has_requests(role.resources) for role in spec.roles):
        yield "CPU and memory are not set aside for a job: all nodes share those of this machine"
    if why := why_unlimited(spec):
        yield f"CPU and memory are shared by all nodes, and not limited: {why}"


def _path_problems(spec: JobSpec, here: AdmissionContext) -> Iterator[str]:
    for folder in spec.host_folders:
        if not Path(folder.host_path).is_dir():
            yield f"there is no folder {folder.host_path} on this machine"
    if not here.is_root:
        yield from _user_problems(spec)
        return
    targets = [each.path for each in spec.data] + [each.path for each in spec.host_folders]
    for path in (*targets, *(each.path for each in spec.config_files)):
        if here.state_folder.is_relative_to(path):
            yield f"{path} would hide {here.state_folder}, where this backend keeps what it has: name another path"
    if not _will_be_there(spec.working_dir, targets):
        yield f"there is no working folder {spec.working_dir} on this machine: make it, or name another one"


def _user_problems(spec: JobSpec) -> Iterator[str]:
    """Without root nothing appears at other paths."""
    moved = [each.path for each in spec.host_folders if each.path != each.host_path]
    if moved or spec.config_files:
        yield (
            "only root can put folders and files at other paths: use --data-dir with one path, "
            "or call `headrace up` as root"
        )
    if not os.access(spec.working_dir, os.X_OK):
        yield f"the working folder {spec.working_dir} may not be entered by this user: name one with --working-dir"


def _mpi_problems(here: AdmissionContext) -> Iterator[str]:
    missing = [
        name for name in ("mpirun", "orted") if shutil.which(name, path=here.search_path or None) is None
    ]
    if missing:
        yield f"{' and '.join(missing)} cannot be found: install Open MPI (Debian: openmpi-bin)"
    if any(letter in str(here.state_folder) for letter in _AGENT_BREAKERS):
        yield f"Open MPI cannot use {here.state_folder}: set HEADRACE_STATE_DIR to a path without spaces and colons"


def _will_be_there(folder: str, targets: Sequence[str]) -> bool:
    path = PurePosixPath(folder)
    return Path(folder).is_dir() or any(path.is_relative_to(target) for target in targets)


def _has_requests(resources: Resources) -> bool:
    """Beside limits of the same size."""
    asked, most = (resources.cpu, resources.memory), (resources.cpu_limit, resources.memory_limit)
    return any(request and request != limit for request, limit in zip(asked, most, strict=True))
