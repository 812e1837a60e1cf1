"""Steps of a plan: workloads applied, scaled and deleted, pods replaced. A step that is cut off is done by the next
pass."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.api.dataset import Dataset
from headrace.errors import HeadraceError
from headrace.kube.client import Content, KubeClient
from headrace.operator.cleanup import Cleanup
from headrace.operator.desired_state import DesiredState, component_of, noted_quotas
from headrace.operator.masters import Masters
from headrace.operator.observer import Observation, planned_nodes
from headrace.operator.rendering import workloads
from headrace.operator.rendering.naming import MASTER_PORT
from headrace.operator.rendering.secret_volumes import plain_options
from headrace.operator.role_states import waits_elsewhere
from headrace.operator.settings import OperatorSettings
from headrace.operator.token_secret import TokenKeeper
from headrace.plan.dataset_events import Event
from headrace.plan.mounting import used_nodes
from headrace.plan.outcome import Plan
from headrace.plan.quota_limits import quotas_of
from headrace.plan.roles import MASTER_ID, MOUNT_PREFIX, Role, RoleKind, worker_index

_log = logging.getLogger("headrace.operator")


@dataclass(frozen=True, slots=True)
class Executor:
    """The executor of one dataset's steps."""

    client: KubeClient
    masters: Masters
    desired: DesiredState
    observation: Observation

    async def execute(self, plan: Plan) -> Event | None:
        """Takes all steps that may be taken now; what is to be told of the token."""
        steps = plan.steps
        if steps.cuts_readers:
            await self._cut_off()
            return None
        await self._stop(steps.stop, plan.roles)
        await self._drain(steps.drain)
        started = frozenset((*steps.start, *steps.replace))
        begins = bool(started) and await self.cleanup.has_peace()
        goes_on = (plan.roles or plan.holds) and self.desired.declared is not None
        if not begins and not (goes_on and self.desired.pods()):
            return None
        kept = await TokenKeeper(
            self.client, self.masters, self.desired, self.observation.render_context
        ).keep()
        if begins:
            render_context = replace(self.observation.render_context, token=kept.note)
            executor = replace(self, observation=replace(self.observation, render_context=render_context))
            executor = await executor._with_files(plan.roles, grows=not plan.exceeds)
            await executor._apply(started, plan.roles)
            for each in steps.start:
                # What ran on a node that is away must not hold the name of what starts elsewhere.
                await self._delete_pod(each, lost_only=True)
            await self._replace(steps.replace)
        elif plan.roles and not self._has_places:
            # Of an earlier release, or taken away with the operator's namespace.
            await self._note_places(plan.roles, grows=not plan.exceeds)
        return kept.event

    @property
    def cleanup(self) -> Cleanup:
        """The cleanup of the rest."""
        return Cleanup(self.client, self.desired, self.observation)

    async def _cut_off(self) -> None:
        """Ends mounts under those who read, and takes the token away that they read with."""
        names, mirror = self.desired.names, self.desired.mirror
        for kind, name in (("Secret", names.token), ("DaemonSet", names.mount)):
            if mirror.get(kind, names.namespace, name):
                await self.client.delete(kind, names.namespace, name)
        for facts in self.observation.observed.roles:
            await self._delete_pod(facts.id, lost_only=True)

    async def _with_files(self, roles: Sequence[Role], *, grows: bool) -> Executor:
        """Applies what pods read, and what they are reached by; the executor that knows the master's address by
        then.
        """
        names, observation = self.desired.names, self.observation
        if any(role.kind is RoleKind.MASTER for role in roles):
            service = await self.client.apply(workloads.master_service(names, observation.render_context))
            await self.client.apply(workloads.worker_service(names, observation.render_context))
            address = service["spec"]["clusterIP"]
            host = f"[{address}]" if ":" in address else address
            render_context = replace(observation.render_context, master=f"http://{host}:{MASTER_PORT}")
            observation = replace(observation, render_context=render_context)
        by_kind = {role.kind: role for role in roles}
        options = plain_options(roles[0], self._datasets()) if roles else {}
        if options:
            await self.client.apply(
                workloads.secret(names.options, options, names, observation.render_context)
            )
        elif self.desired.mirror.get("Secret", names.namespace, names.options):
            await self.client.delete("Secret", names.namespace, names.options)
        # Before anything is made on a node.
        await self._note_places(roles, grows=grows)
        await self.client.apply(workloads.settings_map(by_kind, names, observation.render_context))
        return replace(self, observation=observation)

    @property
    def _has_places(self) -> bool:
        space = self.observation.render_context.settings.namespace
        return self.desired.mirror.get("ConfigMap", space, self.desired.names.places) is not None

    async def _note_places(self, roles: Sequence[Role], *, grows: bool) -> None:
        """Notes the nodes and folders that are to be swept one day, and what workers may keep there."""
        desired, settings = self.desired, self.observation.render_context.settings
        quotas = noted_quotas(desired.mirror, settings.namespace, desired.title)
        if grows:
            quotas = quotas_of(next((role.cache for role in roles if role.kind is RoleKind.WORKER), ()))
        places = _places(desired, roles, settings)
        await self.client.apply(workloads.places_map(places, quotas, desired.names, settings))

    async def _apply(self, started: Iterable[str], roles: Sequence[Role]) -> None:
        """The workloads of the roles that are to be started or replaced."""
        names, render_context = self.desired.names, self.observation.render_context
        started = frozenset(started)
        master = next((role for role in roles if role.id == MASTER_ID), None)
        if master is not None and MASTER_ID in started:
            await self.client.apply(workloads.master_set(master, names, render_context))
        workers = [role for role in roles if role.kind is RoleKind.WORKER]
        if numbers := [worker_index(each) for each in started if worker_index(each) >= 0]:
            await self._apply_workers(workers, max(*numbers, self._replicas() - 1, 0) + 1)
        if mounts := [role for role in roles if role.kind is RoleKind.MOUNT and role.id in started]:
            await self._apply_mounts(mounts[0], {role.node for role in mounts if role.node})

    async def _apply_workers(self, workers: Sequence[Role], replicas: int) -> None:
        nodes = sorted({role.node for role in workers if role.node})
        content = workloads.worker_set(
            workers[0], nodes, replicas, self.desired.names, self.observation.render_context
        )
        await self.client.apply(content)
        for pod in self.desired.pods(RoleKind.WORKER):
            # Kubernetes does not make it anew by itself, and it would wait for the nodes of an earlier plan for ever.
            if waits_elsewhere(pod, nodes) and not pod["metadata"].get("deletionTimestamp"):
                metadata = pod["metadata"]
                await self.client.delete("Pod", metadata["namespace"], metadata["name"], uid=metadata["uid"])

    async def _apply_mounts(self, role: Role, more: set[str], less: frozenset[str] = frozenset()) -> None:
        names = self.desired.names
        nodes = (set(planned_nodes(self.desired, "DaemonSet", names.mount)) | more) - less
        await self.client.apply(
            workloads.mount_set(role, sorted(nodes), names, self.observation.render_context)
        )

    async def _replace(self, role_ids: Iterable[str]) -> None:
        for role_id in role_ids:
            await self._delete_pod(role_id)

    async def _drain(self, role_ids: Sequence[str]) -> None:
        """Has the master tell workers to hand over. They are ended when they have."""
        if not role_ids:
            return
        try:
            master = await self.masters.client(self.desired.title)
        except HeadraceError as error:
            # Nothing that is done beside it waits for a master.
            _log.warning("workers of %s cannot be drained yet: %s", self.desired.title, error)
            return
        async with master as client:
            for role_id in role_ids:
                try:
                    await client.drain(role_id)
                except HeadraceError as error:
                    _log.warning(
                        "worker %s of %s cannot be drained yet: %s", role_id, self.desired.title, error
                    )

    async def _stop(self, role_ids: Sequence[str], roles: Sequence[Role]) -> None:
        names = self.desired.names
        if MASTER_ID in role_ids:
            await self.client.delete("StatefulSet", names.namespace, names.master)
        if workers := [each for each in role_ids if worker_index(each) >= 0]:
            await self._stop_workers(workers, [role for role in roles if role.kind is RoleKind.WORKER])
        if mounts := frozenset(
            each.removeprefix(MOUNT_PREFIX) for each in role_ids if each.startswith(MOUNT_PREFIX)
        ):
            await self._stop_mounts(
                mounts, next((role for role in roles if role.kind is RoleKind.MOUNT), None)
            )
        for each in role_ids:
            await self._delete_pod(each, lost_only=True)

    async def _stop_workers(self, stopped: Sequence[str], workers: Sequence[Role]) -> None:
        """Scales the set down where the last ones go; a worker that is to run elsewhere leaves its pod only."""
        names, replicas = self.desired.names, self._replicas()
        wanted = {worker_index(role.id) for role in workers}
        # Those that go on until a later pass. What waits for a node in vain has nothing to lose.
        running = {worker_index(each.id) for each in self.observation.observed.roles}
        going = running - {worker_index(each) for each in stopped}
        left = replicas
        while left > 0 and left - 1 not in wanted | going:
            left -= 1
        if left == 0 and not wanted:
            await self.client.delete("StatefulSet", names.namespace, names.worker)
            return
        if left < replicas:
            await self.client.patch(
                "StatefulSet", names.namespace, names.worker, {"spec": {"replicas": left}}
            )
        # Below the last one that is wanted none can be left out: its pod waits until there is a node for it.
        moved = [each for each in stopped if worker_index(each) <= max(wanted, default=-1)]
        if moved and workers:
            await self._apply_workers(workers, left)
        await self._replace(moved)

    async def _stop_mounts(self, nodes: frozenset[str], other: Role | None) -> None:
        """Takes nodes out of the set; the set itself goes with the last one. Where somebody reads, the mount may be
        away just now, and not among what runs: its node stays all the same.
        """
        names, used = self.desired.names, used_nodes(self.observation.observed)
        planned = set(planned_nodes(self.desired, "DaemonSet", names.mount))
        left = (planned - nodes) | (planned & used)
        if not left:
            await self.client.delete("DaemonSet", names.namespace, names.mount)
        elif other is not None:
            await self._apply_mounts(other, set(), nodes - used)
        elif not left & used:
            await self.client.delete("DaemonSet", names.namespace, names.mount)

    async def _delete_pod(self, role_id: str, *, lost_only: bool = False) -> None:
        pod = self._pod(role_id)
        if pod is None:
            return
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        # A node that is away never tells that its pod has ended; what ran there must not hold its name for ever.
        lost = bool(node) and not any(
            each.name == node and each.is_ready for each in self.observation.observed.nodes
        )
        if not lost and (lost_only or metadata.get("deletionTimestamp")):
            return
        await self.client.delete(
            "Pod", metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_s=0 if lost else None
        )

    def _pod(self, role_id: str) -> Content | None:
        name = self.desired.names.pod(role_id)
        node = role_id.removeprefix(MOUNT_PREFIX)
        for pod in self.desired.pods():
            is_mount = component_of(pod) == RoleKind.MOUNT and pod["spec"]["nodeName"] == node
            if pod["metadata"]["name"] == name or (name is None and is_mount):
                return pod
        return None

    def _replicas(self) -> int:
        """The workers that the set asks for now."""
        names = self.desired.names
        content = self.desired.mirror.get("StatefulSet", names.namespace, names.worker)
        return int(((content or {}).get("spec") or {}).get("replicas") or 0)

    def _datasets(self) -> Mapping[str, Dataset]:
        """Whose plain options a role may need: the dataset's own, and those of what it refers to."""
        declared = self.desired.declared
        if declared is None:
            return {}
        own = {declared.key: declared.dataset} if declared.dataset else {}
        return {**declared.references, **own}


def _places(desired: DesiredState, roles: Iterable[Role], settings: OperatorSettings) -> dict[str, list[str]]:
    """Every node that the dataset has used or is about to use, with the folders in which it has caches there."""
    found = {node: set(roots) for node, roots in desired.places(settings).items()}
    for role in roles:
        if role.node is not None and role.kind is not RoleKind.MASTER:
            kept = [each.folder for each in role.cache if each.volume_type == "hostPath"]
            roots = {folder.removesuffix(f"/{desired.title}") for folder in kept}
            found.setdefault(role.node, set()).update(roots)
    return {node: sorted(roots) for node, roots in sorted(found.items())}
