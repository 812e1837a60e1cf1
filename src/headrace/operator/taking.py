"""Steps of a plan: workloads applied, scaled and deleted, pods replaced. What is cut off is done by the next look."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.api.dataset import Dataset
from headrace.errors import HeadraceError
from headrace.kube.client import Content, KubeClient
from headrace.operator.clearing import Broom
from headrace.operator.masters import Masters
from headrace.operator.observing import View, planned_nodes
from headrace.operator.rendering import workloads
from headrace.operator.rendering.naming import MASTER_PORT
from headrace.operator.rendering.secrets import plain_options
from headrace.operator.scene import Scene, component_of
from headrace.operator.standing import waits_elsewhere
from headrace.operator.tokens import TokenKeeper
from headrace.plan.events import Event
from headrace.plan.mounting import used_nodes
from headrace.plan.outcome import Plan
from headrace.plan.roles import MASTER_ID, MOUNT_PREFIX, Role, RoleKind, worker_index

_log = logging.getLogger("headrace.operator")


@dataclass(frozen=True, slots=True)
class Hands:
    """What takes the steps of one dataset."""

    client: KubeClient
    masters: Masters
    scene: Scene
    view: View

    async def take(self, plan: Plan) -> Event | None:
        """Takes all steps that may be taken now; what is to be told of the token."""
        steps = plan.steps
        await self._stop(steps.stop, plan.roles)
        await self._drain(steps.drain)
        started = frozenset((*steps.start, *steps.replace))
        begins = bool(started) and await self.broom.has_peace()
        if not begins and not ((plan.roles or plan.holds) and self.scene.pods()):
            return None
        kept = await TokenKeeper(self.client, self.masters, self.scene, self.view.surroundings).keep()
        if begins:
            surroundings = replace(self.view.surroundings, token=kept.note)
            hands = replace(self, view=replace(self.view, surroundings=surroundings))
            hands = await hands._with_files(plan.roles)
            await hands._apply(started, plan.roles)
            for each in steps.start:
                # What ran on a node that is away must not hold the name of what starts elsewhere.
                await self._delete_pod(each, lost_only=True)
            await self._replace(steps.replace)
        return kept.event

    @property
    def broom(self) -> Broom:
        """What takes away the rest."""
        return Broom(self.client, self.scene, self.view)

    async def end(self, role_ids: Sequence[str]) -> None:
        """Ends roles of a dataset that nobody declares any more."""
        await self._stop(role_ids, ())

    async def _with_files(self, roles: Sequence[Role]) -> Hands:
        """Applies what pods read, and what they are reached by; the hands that know the master's address by then."""
        names, view = self.scene.names, self.view
        if any(role.kind is RoleKind.MASTER for role in roles):
            service = await self.client.apply(workloads.master_service(names, view.surroundings))
            await self.client.apply(workloads.worker_service(names, view.surroundings))
            address = service["spec"]["clusterIP"]
            host = f"[{address}]" if ":" in address else address
            surroundings = replace(view.surroundings, master=f"http://{host}:{MASTER_PORT}")
            view = replace(view, surroundings=surroundings)
        by_kind = {role.kind: role for role in roles}
        options = plain_options(roles[0], self._datasets()) if roles else {}
        if options:
            await self.client.apply(workloads.secret(names.options, options, names, view.surroundings))
        elif self.scene.mirror.get("Secret", names.namespace, names.options):
            await self.client.delete("Secret", names.namespace, names.options)
        await self.client.apply(
            workloads.settings_map(by_kind, _places(self.scene, roles), names, view.surroundings)
        )
        return replace(self, view=view)

    async def _apply(self, started: Iterable[str], roles: Sequence[Role]) -> None:
        """The workloads of the roles that are to be started or replaced."""
        names, surroundings = self.scene.names, self.view.surroundings
        started = frozenset(started)
        master = next((role for role in roles if role.id == MASTER_ID), None)
        if master is not None and MASTER_ID in started:
            await self.client.apply(workloads.master_set(master, names, surroundings))
        workers = [role for role in roles if role.kind is RoleKind.WORKER]
        if numbers := [worker_index(each) for each in started if worker_index(each) >= 0]:
            await self._apply_workers(workers, max(*numbers, self._replicas() - 1, 0) + 1)
        if mounts := [role for role in roles if role.kind is RoleKind.MOUNT and role.id in started]:
            await self._apply_mounts(mounts[0], {role.node for role in mounts if role.node})

    async def _apply_workers(self, workers: Sequence[Role], replicas: int) -> None:
        nodes = sorted({role.node for role in workers if role.node})
        content = workloads.worker_set(workers[0], nodes, replicas, self.scene.names, self.view.surroundings)
        await self.client.apply(content)
        for pod in self.scene.pods(RoleKind.WORKER):
            # Kubernetes does not make it anew by itself, and it would wait for the nodes of an earlier plan for ever.
            if waits_elsewhere(pod, nodes) and not pod["metadata"].get("deletionTimestamp"):
                metadata = pod["metadata"]
                await self.client.delete("Pod", metadata["namespace"], metadata["name"], uid=metadata["uid"])

    async def _apply_mounts(self, role: Role, more: set[str], less: frozenset[str] = frozenset()) -> None:
        names = self.scene.names
        nodes = (set(planned_nodes(self.scene, "DaemonSet", names.mount)) | more) - less
        await self.client.apply(workloads.mount_set(role, sorted(nodes), names, self.view.surroundings))

    async def _replace(self, role_ids: Iterable[str]) -> None:
        for role_id in role_ids:
            await self._delete_pod(role_id)

    async def _drain(self, role_ids: Sequence[str]) -> None:
        """Has the master tell workers to hand over. They are ended when they have."""
        if not role_ids:
            return
        try:
            master = await self.masters.client(self.scene.title)
        except HeadraceError as error:
            # Nothing that is done beside it waits for a master.
            _log.warning("workers of %s cannot be drained yet: %s", self.scene.title, error)
            return
        async with master as client:
            for role_id in role_ids:
                try:
                    await client.drain(role_id)
                except HeadraceError as error:
                    _log.warning(
                        "worker %s of %s cannot be drained yet: %s", role_id, self.scene.title, error
                    )

    async def _stop(self, role_ids: Sequence[str], roles: Sequence[Role]) -> None:
        names = self.scene.names
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
        names, replicas = self.scene.names, self._replicas()
        wanted = {worker_index(role.id) for role in workers}
        # Those that go on until a later look. What waits for a node in vain has nothing to lose.
        running = {worker_index(each.id) for each in self.view.observed.roles}
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
        names, used = self.scene.names, used_nodes(self.view.observed)
        planned = set(planned_nodes(self.scene, "DaemonSet", names.mount))
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
            each.name == node and each.is_ready for each in self.view.observed.nodes
        )
        if not lost and (lost_only or metadata.get("deletionTimestamp")):
            return
        await self.client.delete(
            "Pod", metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_s=0 if lost else None
        )

    def _pod(self, role_id: str) -> Content | None:
        name = self.scene.names.pod(role_id)
        node = role_id.removeprefix(MOUNT_PREFIX)
        for pod in self.scene.pods():
            is_mount = component_of(pod) == RoleKind.MOUNT and pod["spec"]["nodeName"] == node
            if pod["metadata"]["name"] == name or (name is None and is_mount):
                return pod
        return None

    def _replicas(self) -> int:
        """The workers that the set asks for now."""
        names = self.scene.names
        content = self.scene.mirror.get("StatefulSet", names.namespace, names.worker)
        return int(((content or {}).get("spec") or {}).get("replicas") or 0)

    def _datasets(self) -> Mapping[str, Dataset]:
        """Whose plain options a role may need: the dataset's own, and those of what it refers to."""
        declared = self.scene.declared
        if declared is None:
            return {}
        own = {declared.key: declared.dataset} if declared.dataset else {}
        return {**declared.references, **own}


def _places(scene: Scene, roles: Iterable[Role]) -> dict[str, list[str]]:
    """Every node that the dataset has used or is about to use, with the folders in which it has caches there."""
    found = {node: set(roots) for node, roots in scene.places().items()}
    for role in roles:
        if role.node is not None and role.kind is not RoleKind.MASTER:
            kept = [each.folder for each in role.cache if each.volume_type == "hostPath"]
            roots = {folder.removesuffix(f"/{scene.title}") for folder in kept}
            found.setdefault(role.node, set()).update(roots)
    return {node: sorted(roots) for node, roots in sorted(found.items())}
