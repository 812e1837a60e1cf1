"""The plan of a dataset that has a runtime: its roles, and how far they are."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from headrace.api.dataset import Dataset, DatasetSpec
from headrace.api.ignored import IgnoredField, ignored_fields
from headrace.api.kinds import Runtime, kind_of
from headrace.plan.backup_folders import refused_backup
from headrace.plan.cache_folders import cache_folders, capacity_bytes
from headrace.plan.cache_numbers import cache_states
from headrace.plan.dataset_status import Findings, was_bound, was_listed
from headrace.plan.dataset_tree import Tree, tree_of
from headrace.plan.declared import Declared, is_leaving
from headrace.plan.health import Health, Situation, degraded_of, health_of
from headrace.plan.mounting import Mounted, place_mounts, volume_in_the_way
from headrace.plan.node_names import natural_order
from headrace.plan.observed import Node, Observed, RoleState
from headrace.plan.outcome import Decision, Plan, outcome
from headrace.plan.placement import Placed, WorkerRules, place_workers
from headrace.plan.quota_room import overcommitted, said_before
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.role_settings import Blueprint, mounts_on
from headrace.plan.roles import MASTER_ID, CacheFolder, Role, RoleKind, tree_version
from headrace.plan.runtime_status import Workforce
from headrace.plan.runtimes import Wanted, wanted_of
from headrace.plan.selectors import fits_labels, is_tolerated
from headrace.plan.steps import NO_STEPS, Progress, Steps, next_steps
from headrace.plan.tolerations import allowed_tolerations
from headrace.plan.volume import ignored_capacity, volume_of


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """A dataset and its runtime, both declared."""

    declared: Declared
    dataset: Dataset
    runtime: Runtime
    wanted: Wanted
    observed: Observed
    terminating: Wait | None = None

    @property
    def was_bound(self) -> bool:
        """True once programs could read it."""
        return was_bound(self.declared.dataset_status)


def plan_service(
    declared: Declared,
    dataset: Dataset,
    runtime: Runtime,
    observed: Observed,
    now: datetime,
    *,
    terminating: Wait | None = None,
) -> Plan:
    """The plan. `terminating` is why it cannot be deleted yet, when that was asked for."""
    wanted = wanted_of(runtime)
    service = Service(declared, dataset, runtime, wanted, observed, terminating)
    tree = tree_of(declared, wanted, observed)
    cache = cache_folders(wanted, declared.key, observed.policy)
    if isinstance(tree, Wait):
        return _held(service, tree, now)
    if isinstance(cache, Wait):
        return _held(service, cache, now)
    stranger = refused_backup(dataset, declared.namespace, observed.policy)
    if stranger is not None and not service.was_bound:
        return _held(service, stranger, now)
    blueprint = Blueprint(declared, wanted, tree, cache, observed, restores=stranger is None)
    return _followed(service, blueprint, now)


def _held(service: Service, blocking: Wait, now: datetime) -> Plan:
    """The declarations cannot be followed: what runs goes on, and the dataset is as ready as it was."""
    running = frozenset(facts.id for facts in service.observed.roles)
    situation = _situation(service, running, None, None)
    health = Health(blocking, None)
    if service.was_bound:
        health = Health(health_of(situation).waiting, degraded_of(situation, blocking))
    mounted = service.declared.dataset_status.mounts
    findings = _findings(service, health, Tree((), (), mounted), updating=False)
    said = service.declared.dataset_status.conditions
    findings = dataclasses.replace(findings, overcommitted=said_before(said))
    return _decided(service, findings, running, now, roles=(), steps=NO_STEPS, holds=True)


def _followed(service: Service, blueprint: Blueprint, now: datetime) -> Plan:
    placed = _placed_workers(service, blueprint)
    mounted = place_mounts(service.wanted, frozenset(placed.nodes.values()), service.observed)
    roles = _roles(blueprint, placed, mounted)
    if not any(role.kind is RoleKind.MASTER for role in roles):
        homeless = wait(
            Reason.NO_NODE_MATCHES, "the master has no node, none fits its nodeSelector and its claims"
        )
        placed = dataclasses.replace(placed, lacking=placed.lacking or homeless)
    wanted = frozenset(role.id for role in roles)
    updating = _is_updating(service, blueprint.tree, roles)
    situation = dataclasses.replace(_situation(service, wanted, placed, mounted), updating=updating)
    steps = next_steps(Progress(roles, service.observed, situation.is_listed), now)
    if placed.exceeds:
        steps = steps.without(role.id for role in roles if role.kind is RoleKind.WORKER)
    findings = _findings(service, health_of(situation), blueprint.tree, updating=updating)
    said = service.declared.dataset_status.conditions
    lacking = overcommitted(roles, service.observed, said)
    seen = _with_quotas(service.observed, blueprint.cache) if lacking else service.observed
    findings = dataclasses.replace(findings, overcommitted=lacking, observed=seen)
    return _decided(service, findings, wanted, now, roles=roles, steps=steps, exceeds=placed.exceeds)


def _with_quotas(observed: Observed, cache: tuple[CacheFolder, ...]) -> Observed:
    """The capacity by the quotas, also where a worker was given less: that a disk is smaller has its own condition."""
    if observed.data is None:
        return observed
    ready = sum(each.role == RoleKind.WORKER and each.state is RoleState.READY for each in observed.roles)
    data = dataclasses.replace(observed.data, capacity_bytes=ready * capacity_bytes(cache))
    return dataclasses.replace(observed, data=data)


def _placed_workers(service: Service, blueprint: Blueprint) -> Placed:
    rules = WorkerRules(
        service.dataset,
        service.wanted.worker,
        blueprint.cache,
        blueprint.tree.nodes,
        blueprint.observed.policy,
    )
    return place_workers(service.wanted.workers, rules, service.observed)


def _roles(blueprint: Blueprint, placed: Placed, mounted: Mounted) -> tuple[Role, ...]:
    """All roles, but for a master that no node fits."""
    node = _master_node(blueprint, placed)
    masters = () if node is None else (blueprint.master(node or None),)
    return (*masters, *blueprint.workers(placed.nodes), *mounts_on(mounted.nodes, blueprint.declared.key))


def _master_node(blueprint: Blueprint, placed: Placed) -> str | None:
    """The master's node: empty for any, unless a selector or a claim's volume says otherwise; `None` when none fits.

    It stays where it is, or goes beside a worker, or to the first node that fits. One that runs is not ended for want
    of a better place.
    """
    place, nodes = blueprint.wanted.master, blueprint.tree.nodes
    if not place.node_selector and nodes is None:
        return ""
    fitting = [node.name for node in blueprint.observed.nodes if _fits_master(node, blueprint)]
    facts = (each for each in blueprint.observed.roles if each.id == MASTER_ID)
    now = [each.node for each in facts if each.state is not RoleState.ENDED]
    beside = [placed.nodes[index] for index in sorted(placed.nodes)]
    others = [*beside, *sorted(fitting, key=natural_order)]
    ready = {node.name for node in blueprint.observed.nodes if node.is_ready}
    ordered = [*now, *(name for name in others if name in ready), *others]
    return next((name for name in ordered if name in fitting), now[0] if now else None)


def _fits_master(node: Node, blueprint: Blueprint) -> bool:
    place, nodes = blueprint.wanted.master, blueprint.tree.nodes
    spec = blueprint.declared.dataset.spec if blueprint.declared.dataset else DatasetSpec()
    allowed = nodes is None or node.name in nodes
    asked = (*spec.tolerations, *place.tolerations)
    tolerations = allowed_tolerations(asked, blueprint.observed.policy)
    return allowed and fits_labels(node, place.node_selector) and is_tolerated(node, tolerations)


def _situation(
    service: Service, wanted: frozenset[str], placed: Placed | None, mounted: Mounted | None
) -> Situation:
    return Situation(
        wanted=wanted,
        observed=service.observed,
        workers=service.wanted.workers,
        was_bound=service.was_bound,
        was_listed=was_listed(service.declared.dataset_status),
        lacking=placed.lacking if placed else None,
        refused=mounted.refused if mounted else None,
    )


def _is_updating(service: Service, tree: Tree, roles: tuple[Role, ...]) -> bool:
    """True from a change of the mounts until master and workers all read the new ones."""
    if not service.was_bound:
        return False
    if service.declared.dataset_status.mounts == tree.mounted and not _has_strangers(service, roles):
        return False
    data = service.observed.data
    listed = data is not None and data.snapshot_version > 0 and not data.fault_kind
    return not listed or _has_strangers(service, roles) or not _is_master_ready(service, roles)


def _has_strangers(service: Service, roles: tuple[Role, ...]) -> bool:
    """True while a master or a worker runs that reads another tree."""
    versions = {role.id: role.tree_version for role in roles if role.kind is not RoleKind.MOUNT}
    return any(
        facts.id in versions and tree_version(facts.version) != versions[facts.id]
        for facts in service.observed.roles
        if facts.state is not RoleState.ENDED
    )


def _is_master_ready(service: Service, roles: tuple[Role, ...]) -> bool:
    """True for a master of today: one of before may list what is not wanted any more."""
    wanted = {role.version for role in roles if role.id == MASTER_ID}
    ready = (each for each in service.observed.roles if each.state is RoleState.READY)
    return any(each.id == MASTER_ID and each.version in wanted for each in ready)


def _findings(service: Service, health: Health, tree: Tree, *, updating: bool) -> Findings:
    before = service.declared.dataset_status
    in_the_way = None
    if service.terminating is None:
        # Of one that is being deleted, nobody is to get the volume any more.
        in_the_way = volume_in_the_way(volume_of(service.dataset), service.observed)
    return Findings(
        dataset=service.dataset,
        observed=service.observed,
        runtime=service.runtime,
        waiting=health.waiting,
        degraded=(health.degraded or in_the_way) if health.waiting is None else None,
        terminating=_closing(service),
        updating=updating,
        mounted=before.mounts if updating else tree.mounted,
        ignored=_ignored(service.dataset, tree),
        copies=min(service.wanted.block_replicas, max(service.wanted.workers, 1)),
    )


def _closing(service: Service) -> Wait | None:
    """Why the dataset cannot be deleted yet, or its runtime, which keeps everybody new from it as well."""
    terminating = service.terminating
    if terminating is None or is_leaving(service.dataset):
        return terminating
    what = f"its {kind_of(service.runtime).name} is being deleted"
    return dataclasses.replace(terminating, message=f"{what}, and {terminating.message}")


def _ignored(dataset: Dataset, tree: Tree) -> tuple[IgnoredField, ...]:
    return (*ignored_fields(dataset), *ignored_capacity(dataset), *tree.ignored)


def _decided(
    service: Service,
    findings: Findings,
    wanted: frozenset[str],
    now: datetime,
    *,
    roles: tuple[Role, ...],
    steps: Steps,
    holds: bool = False,
    exceeds: bool = False,
) -> Plan:
    bound = findings.waiting is None or service.was_bound
    data = findings.observed.data
    known = data is not None and data.snapshot_version > 0
    workforce = Workforce(
        runtime=service.runtime,
        observed=service.observed,
        wanted=wanted,
        workers=service.wanted.workers,
        waiting=findings.waiting,
        degraded=findings.degraded,
        cache_states=cache_states(data, copies=findings.copies)
        if data is not None and known
        else service.declared.runtime_status.cache_states,
        is_bound=bound,
        remounts=findings.waiting is None and service.declared.dataset_status.mounts != findings.mounted,
        terminating=service.terminating if is_leaving(service.runtime) else None,
        tolerations=service.dataset.spec.tolerations,
    )
    decision = Decision(
        declared=service.declared,
        findings=findings,
        workforce=workforce,
        roles=roles,
        steps=steps,
        volume=volume_of(service.dataset) if bound else None,
        holds=holds,
        exceeds=exceeds,
    )
    return outcome(decision, now)
