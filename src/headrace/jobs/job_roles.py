"""The roles of a job of each kind, from how many of which processes were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import ConfigError
from headrace.jobs.flag_values import parse_devices, parse_pairs
from headrace.jobs.spec import JobKind, Resources, Role, RoleName
from headrace.jobs.tf import lone_chief

Values = Mapping[str, Any]


def roles_of(kind: JobKind, values: Values) -> tuple[Role, ...]:
    """The roles that the values of flags mean (`workers`, `gpus`, `ps`, …). Raises `ConfigError`."""
    for name in ("workers", "gpus", "ps", "ps_gpus", "worker_port", "ps_port", "chief_port"):
        if values.get(name, 0) < 0:
            raise ConfigError.of(f"--{name.replace('_', '-')} {values[name]} is below zero")
    if kind is JobKind.MPI:
        return mpi_roles(values)
    return pytorch_roles(values) if kind is JobKind.PYTORCH else tf_roles(values)


def mpi_roles(values: Values) -> tuple[Role, ...]:
    """A launcher that needs nothing, and workers."""
    worker = Role(name=RoleName.WORKER, replicas=values["workers"], resources=_sizes(values))
    return Role(name=RoleName.LAUNCHER, replicas=1), worker


def pytorch_roles(values: Values) -> tuple[Role, ...]:
    """The master is the first of the workers."""
    workers, resources = values["workers"], _sizes(values)
    found = (
        Role(name=RoleName.MASTER, replicas=min(workers, 1), resources=resources),
        Role(name=RoleName.WORKER, replicas=max(workers - 1, 0), resources=resources),
    )
    return tuple(role for role in found if role.replicas or role.name is RoleName.MASTER)


def tf_roles(values: Values) -> tuple[Role, ...]:
    """The roles that were asked for; a single worker without any other is the chief."""
    counts = {
        RoleName.CHIEF: int(values["chief"]),
        RoleName.WORKER: values["workers"],
        RoleName.PS: values["ps"],
        RoleName.EVALUATOR: int(values["evaluator"]),
    }
    found = tuple(_tf_role(name, count, values) for name, count in counts.items() if count)
    return lone_chief(found)


def _sizes(values: Values) -> Resources:
    """Requests and limits are the same, as with Arena."""
    return Resources(
        cpu=values["cpu"],
        memory=values["memory"],
        cpu_limit=values["cpu"],
        memory_limit=values["memory"],
        gpus=values["gpus"],
        devices=parse_devices(values["device"]),
    )


def _tf_role(name: RoleName, count: int, values: Values) -> Role:
    word = name.value
    trains = name in (RoleName.CHIEF, RoleName.WORKER)
    selector = values[f"{word}_selector"]
    return Role(
        name=name,
        replicas=count,
        resources=Resources(
            cpu=values[f"{word}_cpu"],
            memory=values[f"{word}_memory"],
            cpu_limit=values[f"{word}_cpu_limit"],
            memory_limit=values[f"{word}_memory_limit"],
            gpus=values["gpus"] if trains else values.get(f"{word}_gpus", 0),
            devices=parse_devices(values["device"]) if trains else {},
        ),
        image=values.get(f"{'worker' if trains else word}_image", ""),
        selector=parse_pairs(selector, f"--{word}-selector") if selector else None,
        port=values.get(f"{word}_port", 0),
        affinity_policy=values.get(f"{word}_affinity_policy", "none"),
        affinity_constraint=values.get(f"{word}_affinity_constraint", "preferred"),
    )
