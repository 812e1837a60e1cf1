"""On which nodes the processes of a job run: spread, one worker a node while there are enough, near the data. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.api.scheduling import Toleration
from headrace.jobs.spec import JobKind, JobSpec, Role, RoleName
from headrace.local.jobs.replicas import Replica
from headrace.plan.node_names import natural_order
from headrace.plan.observed import Node
from headrace.plan.selectors import fits_labels, is_tolerated

_QUARTERS = 4
_WITH_WORKERS = (RoleName.LAUNCHER,)


@dataclass(frozen=True, slots=True)
class CandidateNode:
    """A node as a job sees it. `cached_share` is how much of the job's data is there, from 0 to 1."""

    node: Node
    may_mount: bool = True
    cached_share: float = 0.0
    users: int = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name


@dataclass(frozen=True, slots=True)
class Placement:
    """The node of each process by its name, with the port that it listens at; or what is in the way, in a sentence."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Of the nodes."""
    ports: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


def schedule(spec: JobSpec, replicas: Sequence[Replica], sites: Iterable[CandidateNode]) -> Placement:
    """A node for each process.

    Workers go where most of the data is (in quarters: a little more is not worth a crowd), then where fewest programs
    are; no node gets a second one before all that fit have one. The launcher goes with the first worker, since it
    computes nothing.
    """
    known = list(sites)
    taken: Counter[str] = Counter()
    of_role: set[tuple[RoleName, str]] = set()
    found: dict[str, str] = {}
    for replica in (each for each in replicas if each.role not in _WITH_WORKERS):
        role = spec.role(replica.role)
        full = {node for name, node in of_role if name is replica.role and _must_spread(role)}
        fitting = [site for site in known if site.name not in full and _fits(spec, role, site)]
        if not fitting:
            return Placement(problem=_problem(spec, role, known, has_full=bool(full)))
        best = min(fitting, key=_rank(role, taken))
        taken[best.name] += 1
        of_role.add((replica.role, best.name))
        found[replica.name] = best.name
    first = next(iter(found.values()), None)
    for replica in (each for each in replicas if each.role in _WITH_WORKERS):
        node = first or next((site.name for site in known if _fits(spec, None, site)), None)
        if node is None:
            return Placement(problem=_problem(spec, None, known))
        found[replica.name] = node
    return Placement(found)


def needs_mount(spec: JobSpec, role: RoleName) -> bool:
    """True if a process reads the job's data: a launcher of MPI only when that was asked for."""
    return spec.kind is not JobKind.MPI or role is not RoleName.LAUNCHER or spec.mounts_on_launcher


def _fits(spec: JobSpec, role: Role | None, site: CandidateNode) -> bool:
    selector = spec.selector if role is None or role.selector is None else role.selector
    tolerations = [_toleration(each.key, each.operator, each.value, each.effect) for each in spec.tolerations]
    return (
        site.node.is_ready
        and (site.may_mount or not spec.data)
        and fits_labels(site.node, selector)
        and is_tolerated(site.node, tolerations)
    )


def _rank(role: Role | None, taken: Mapping[str, int]) -> Callable[[CandidateNode], tuple[object, ...]]:
    packs = role is not None and role.affinity_policy == "binpack"

    def rank(site: CandidateNode) -> tuple[object, ...]:
        crowd = taken.get(site.name, 0)
        quarters = round(site.cached_share * _QUARTERS)
        return -crowd if packs else crowd, -quarters, site.users, natural_order(site.name)

    return rank


def _must_spread(role: Role | None) -> bool:
    return role is not None and role.affinity_policy == "spread" and role.affinity_constraint == "required"


def _problem(
    spec: JobSpec, role: Role | None, sites: Sequence[CandidateNode], *, has_full: bool = False
) -> str:
    who = f"{spec.name}'s {role.name.value}" if role is not None else spec.name
    if has_full:
        return f"there are fewer nodes than {role.replicas if role else 0} for {who}, which shall be spread"
    if not sites:
        return f"there is no node for {who}"
    return (
        f"no node fits {who}: not ready, tainted, without the labels of --selector, "
        "or excluded by the runtime's fuse part"
    )


def _toleration(key: str, operator: str, value: str, effect: str) -> Toleration:
    return Toleration.model_validate(
        {"key": key or None, "operator": operator, "value": value or None, "effect": effect or None}
    )
