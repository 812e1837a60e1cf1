"""The limits of memory and processors for the instances of a job, and the control groups that enforce them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.api.quantities import amount_of
from headrace.local.jobs.instance_spec import GROUPS_FILE, InstanceSpec
from headrace.local.jobs.rank_launcher import INSTANCES
from headrace.local.processes.cgroups import ControlGroup, Limits, remove_groups, why_not
from headrace.local.processes.private_files import write_private

if TYPE_CHECKING:
    from headrace.jobs.spec import JobSpec, Resources


def limits_of(resources: Resources) -> Limits:
    """The limits that were asked for."""
    memory, cpus = amount_of(resources.memory_limit or ""), amount_of(resources.cpu_limit or "")
    return Limits(int(memory) if memory else None, float(cpus) if cpus else None)


def why_unlimited(spec: JobSpec) -> str:
    """Why the limits that a job asks for cannot be set here; empty when they can, or when it asks for none."""
    return next((why for role in spec.roles if (why := why_not(limits_of(role.resources)))), "")


def make_group(folder: Path, spec: InstanceSpec) -> ControlGroup | None:
    """The group of an instance's programs, `None` without limits; `folder` is the instance's.

    It is written down first, so that it can be removed whoever dies. Raises `OSError`.
    """
    remove_group(folder)
    limits = Limits(spec.memory_bytes, spec.cpus)
    if not limits.controllers:
        return None
    group = ControlGroup.planned(f"headrace-{spec.run}-{spec.name}", limits)
    write_private(folder / GROUPS_FILE, "".join(f"{path}\n" for path in group.paths).encode())
    group.make()
    return group


def remove_group(folder: Path) -> None:
    """Removes the group that an instance has left, if it did. Nothing of it may run."""
    file = folder / GROUPS_FILE
    if file.is_file():
        remove_groups(map(Path, file.read_text().splitlines()))
        file.unlink()


def remove_groups_of_job(folder: Path) -> None:
    """The same for all instances of a job; `folder` is the job's, which may be gone."""
    for file in (folder / INSTANCES).glob(f"*/{GROUPS_FILE}"):
        remove_group(file.parent)
