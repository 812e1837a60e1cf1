"""The processes of a job, and their names: as its operator on Kubernetes would name its pods. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.jobs.spec import JobKind, JobSpec, Resources, Role, RoleName

# The letters of Kubernetes' random names: no vowels, so that no words come out.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_FIRST_GROUPS = {JobKind.MPI: ((RoleName.WORKER,), (RoleName.LAUNCHER,))}


@dataclass(frozen=True, slots=True)
class Replica:
    """A process that a job wants."""

    name: str
    role: RoleName
    index: int
    gpus: int = 0
    is_chief: bool = False


def replicas_of(spec: JobSpec, uid: str, attempt: int) -> tuple[Replica, ...]:
    """All processes of an attempt, the chief first. A launcher has another name in each attempt."""
    found = [replica for role in _roles(spec) for replica in _replicas(spec, role, uid, attempt)]
    return tuple(sorted(found, key=lambda replica: not replica.is_chief))


def groups_of(spec: JobSpec) -> tuple[tuple[RoleName, ...], ...]:
    """The roles in the order in which they start: a group begins when all before it are up."""
    present = [role.name for role in _roles(spec)]
    if spec.kind in _FIRST_GROUPS:
        return _FIRST_GROUPS[spec.kind]
    if not spec.role_sequence:
        return (tuple(present),)
    first = [(name,) for name in spec.role_sequence if name in present]
    rest = tuple(name for name in present if name not in spec.role_sequence)
    return (*first, rest) if rest else tuple(first)


def _roles(spec: JobSpec) -> tuple[Role, ...]:
    """Those with processes. A job of MPI has a launcher, said or not."""
    roles = tuple(role for role in spec.roles if role.replicas)
    if spec.kind is JobKind.MPI and spec.role(RoleName.LAUNCHER) is None:
        return (Role(name=RoleName.LAUNCHER, replicas=1, resources=Resources()), *roles)
    return roles


def _replicas(spec: JobSpec, role: Role, uid: str, attempt: int) -> Iterator[Replica]:
    chief = _chief_role(spec)
    for index in range(role.replicas):
        suffix = _random_suffix(uid, attempt) if role.name is RoleName.LAUNCHER else str(index)
        name = f"{spec.name}-{role.name.value}-{suffix}"
        yield Replica(name, role.name, index, role.resources.gpus, role.name is chief and index == 0)


def _chief_role(spec: JobSpec) -> RoleName:
    """Whose end is the job's."""
    if spec.kind is JobKind.MPI:
        return RoleName.LAUNCHER
    wanted = RoleName.MASTER if spec.kind is JobKind.PYTORCH else RoleName.CHIEF
    return wanted if spec.role(wanted) is not None else RoleName.WORKER


def _random_suffix(uid: str, attempt: int) -> str:
    number = int.from_bytes(hashlib.blake2b(f"{uid}-{attempt}".encode(), digest_size=8).digest())
    letters = []
    for _ in range(_SUFFIX_LENGTH):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)
