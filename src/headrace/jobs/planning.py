"""The check that nodes have room for a job. A busy node may become free, so only a job that can never fit is a
problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.jobs.spec import JobKind, JobSpec, Role, RoleName
from headrace.jobs.views import NodeRoom

_WITHOUT_LIMIT = 1 << 30


def placement_problems(spec: JobSpec, rooms: Sequence[NodeRoom], *, counts_gpus: bool = True) -> list[str]:
    """Why the job's processes can never all run on these nodes, each a sentence; empty when they can.

    Without `counts_gpus` accelerators are emulated, and only slots count.
    """
    found = []
    for role in spec.roles:
        if role.replicas and role.name is not RoleName.LAUNCHER:
            sentence = _lacking(spec, role, rooms, counts_gpus)
            found += [sentence] if sentence else []
    return found


def room_for(spec: JobSpec, role: Role, node: NodeRoom, *, counts_gpus: bool = True) -> int:
    """The number of processes of a role that fit on a node that runs nothing else."""
    wanted = role.selector if role.selector is not None else spec.selector
    if not node.ready or not _fits(wanted, node.labels):
        return 0
    gpus, found = role.resources.gpus, _WITHOUT_LIMIT
    if gpus and counts_gpus:
        found = node.allocatable_gpus // gpus
    if node.slots and spec.kind is JobKind.MPI:
        found = min(found, node.slots // max(gpus, 1))
    return found


def _lacking(spec: JobSpec, role: Role, rooms: Sequence[NodeRoom], counts_gpus: bool) -> str | None:
    room = sum(room_for(spec, role, node, counts_gpus=counts_gpus) for node in rooms)
    if room >= role.replicas:
        return None
    wanted = role.selector if role.selector is not None else spec.selector
    fitting = [node for node in rooms if node.ready and _fits(wanted, node.labels)]
    return (
        f"{_asked(role)} cannot run here: {_nodes(fitting, rooms, wanted)} for {room} of them; "
        f"ask for fewer by {_flags(role)}, or add nodes"
    )


def _asked(role: Role) -> str:
    plural = "es" if role.name is RoleName.PS else "s"
    count = f"{role.replicas} {role.name.value}{'' if role.replicas == 1 else plural}"
    gpus = role.resources.gpus
    return f"{count} with {gpus} GPU{'' if gpus == 1 else 's'} each" if gpus else count


def _nodes(fitting: Sequence[NodeRoom], rooms: Sequence[NodeRoom], wanted: Mapping[str, str]) -> str:
    if not rooms:
        return "there are no nodes, so no room"
    gpus = ", ".join(f"{node.name} {node.allocatable_gpus}" for node in fitting[:8])
    selector = f" with {','.join(f'{key}={value}' for key, value in wanted.items())}" if wanted else ""
    if not fitting:
        return f"none of {len(rooms)} nodes is ready{' and' + selector if selector else ''}, so no room"
    many = f"{len(fitting)} ready node{'' if len(fitting) == 1 else 's'}{selector}"
    return f"{many} (GPUs: {gpus}) {'has' if len(fitting) == 1 else 'have'} room"


def _flags(role: Role) -> str:
    if role.name is RoleName.PS:
        return "--ps or --ps-gpus"
    return "--workers or --gpus"


def _fits(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
