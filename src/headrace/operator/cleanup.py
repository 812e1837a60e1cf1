"""The remains of a dataset when none of its roles runs any more: objects, and files on nodes, taken away."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.api.times import parse_time
from headrace.kube.client import Content, KubeClient
from headrace.operator.desired_state import DesiredState
from headrace.operator.observer import Observation
from headrace.operator.rendering.naming import SWEPT_FINALIZER
from headrace.operator.rendering.sweeper_pods import sweeper

_log = logging.getLogger("headrace.operator")

_DEADLINE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Cleans up after one dataset. A step that is cut off is done by the next pass."""

    client: KubeClient
    desired: DesiredState
    observation: Observation

    async def clear(self) -> bool:
        """Takes away everything of a dataset that has no roles any more; true when nothing of it is left."""
        names, mirror = self.desired.names, self.desired.mirror
        made = {
            "StatefulSet": (names.master, names.worker),
            "DaemonSet": (names.mount,),
            "Service": (names.master, names.worker),
            "Secret": (names.token, names.options),
        }
        for kind, found in made.items():
            for name in found:
                if mirror.get(kind, names.namespace, name):
                    await self.client.delete(kind, names.namespace, name)
        space = self.observation.render_context.settings.namespace
        files = mirror.get("ConfigMap", names.namespace, names.settings)
        noted = mirror.get("ConfigMap", space, names.places)
        if files is None and noted is None:
            return True
        if not await self._sweep():
            return False
        # Last, since it says which nodes are to be swept.
        for each in filter(None, (files, noted)):
            await self._forget(each)
        return True

    async def has_peace(self) -> bool:
        """True when nobody cleans the nodes: what begins there again would be taken away under its feet."""
        space = self.observation.render_context.settings.namespace
        ready = {node.name for node in self.observation.observed.nodes if node.is_ready}
        sweepers = self.desired.sweepers(space)
        for node, pod in sweepers.items():
            metadata, grace_s = pod["metadata"], None if node in ready else 0
            await self.client.delete("Pod", space, metadata["name"], uid=metadata["uid"], grace_s=grace_s)
        return not sweepers

    async def _sweep(self) -> bool:
        """Has every node that the dataset used cleaned; true when all are. A node that is gone keeps what it has."""
        names, settings = self.desired.names, self.observation.render_context.settings
        there = {node.name for node in self.observation.observed.nodes}
        sweepers = self.desired.sweepers(settings.namespace)
        done = True
        for node, roots in self.desired.places(settings).items():
            pod = sweepers.get(node)
            if node not in there or (pod is not None and _has_swept(pod, self.desired.title)):
                continue
            done = False
            if pod is None:
                await self.client.apply(sweeper(names, node, roots, settings))
        for pod in sweepers.values() if done else ():
            metadata = pod["metadata"]
            await self.client.delete(
                "Pod", settings.namespace, metadata["name"], uid=metadata["uid"], grace_s=0
            )
        return done

    async def _forget(self, noted: Content) -> None:
        """Deletes a ConfigMap. One that an earlier release made waits for that when its namespace has gone before."""
        metadata = noted["metadata"]
        where = ("ConfigMap", metadata["namespace"], metadata["name"])
        held = metadata.get("finalizers") or []
        if SWEPT_FINALIZER in held:
            left = [each for each in held if each != SWEPT_FINALIZER]
            body = {"metadata": {"finalizers": left, "resourceVersion": metadata["resourceVersion"]}}
            await self.client.patch(*where, body)
        await self.client.delete(*where, uid=metadata["uid"])


def _has_swept(pod: Content, title: str) -> bool:
    """True when it has done its work, or will not any more: what it leaves then is for people."""
    if pod["status"].get("phase") == "Succeeded":
        return True
    if datetime.now(UTC) - parse_time(pod["metadata"]["creationTimestamp"]) < _DEADLINE:
        return False
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    _log.warning("dataset/%s: pod %s could not take away what is left on node %s", title, name, node)
    return True
