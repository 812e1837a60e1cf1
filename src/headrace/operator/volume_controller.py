"""The volume of a dataset in the cluster, and its claim: seen, made, made anew, taken away. No other is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.api.core import PersistentVolume, PersistentVolumeClaim
from headrace.api.quantities import amount_of
from headrace.api.writing import content_of
from headrace.kube.client import Content, KubeClient
from headrace.operator.leaving import is_leaving
from headrace.operator.mirror import Mirror
from headrace.operator.rendering.naming import MANAGED_LABEL, MANAGER
from headrace.plan.volume import (
    DRIVER,
    Volume,
    VolumeFacts,
    persistent_volume,
    persistent_volume_claim,
    volume_name,
)
from headrace.work_queue import Dataset as Key

_VOLUME, _CLAIM = "PersistentVolume", "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class Pair:
    """The objects under the names of a dataset's volume and claim, whoever made them."""

    key: Key
    volume: Content | None
    claim: Content | None

    @property
    def name(self) -> str:
        """That of the volume."""
        return volume_name(*self.key)

    @property
    def stranger(self) -> str:
        """The one of them that is somebody else's, for people; empty when none is."""
        if self.claim is not None and self.claim["spec"].get("volumeName") != self.name:
            return f"claim {'/'.join(self.key)}"
        if self.volume is not None and not self._is_ours(self.volume):
            return f"volume {self.name}"
        return ""

    @property
    def own(self) -> list[tuple[str, Content]]:
        """The objects that are the dataset's, with their kinds, in the order in which they go."""
        if self.volume is not None and not self._is_ours(self.volume):
            return []
        made = self.claim is not None and self.claim["spec"].get("volumeName") == self.name
        pair = ((_CLAIM, self.claim if made else None), (_VOLUME, self.volume))
        return [(kind, content) for kind, content in pair if content is not None]

    def _is_ours(self, volume: Content) -> bool:
        """A person may make volumes of our driver, and of any name."""
        spec, labels = volume["spec"], volume["metadata"].get("labels") or {}
        bound = spec.get("claimRef") or {}
        is_bound = (bound.get("namespace"), bound.get("name")) == self.key
        driver = (spec.get("csi") or {}).get("driver")
        return is_bound and driver == DRIVER and labels.get(MANAGED_LABEL) == MANAGER


def pair_of(mirror: Mirror, key: Key) -> Pair:
    """The objects that are there."""
    return Pair(key, mirror.get(_VOLUME, "", volume_name(*key)), mirror.get(_CLAIM, *key))


def volume_facts(mirror: Mirror, key: Key) -> VolumeFacts | None:
    """The volume, for the planner; `None` where none is."""
    pair = pair_of(mirror, key)
    if pair.stranger:
        return VolumeFacts(stranger=pair.stranger)
    leaves = any(is_leaving(content) for _, content in pair.own)
    if pair.volume is None:
        return VolumeFacts(is_leaving=True) if leaves else None
    spec = pair.volume["spec"]
    shown = spec["csi"].get("volumeAttributes") or {}
    return VolumeFacts(
        capacity=amount_of((spec.get("capacity") or {}).get("storage", "")),
        access_modes=frozenset(spec.get("accessModes") or ()),
        dataset=shown.get("dataset", ""),
        sub_path=shown.get("subPath", ""),
        is_leaving=leaves,
    )


@dataclass(frozen=True, slots=True)
class VolumeMaker:
    """Brings a dataset's volume in line. A step that is cut off is done by the next pass."""

    client: KubeClient
    mirror: Mirror

    async def follow(self, key: Key, volume: Volume | None, *, in_use: bool, closes: bool = False) -> None:
        """Makes the volume and its claim, anew where they are otherwise and nobody uses them; or takes them away.

        With `closes` the claim is asked to go: Kubernetes keeps it for the pods that use it, and lets no other begin.
        """
        pair, facts = pair_of(self.mirror, key), volume_facts(self.mirror, key)
        if volume is None:
            if not in_use:
                await self._take_away(pair)
        elif closes:
            await self._ask_to_go([(kind, content) for kind, content in pair.own if kind == _CLAIM])
        elif facts is None or not (facts.stranger or facts.differences(volume)):
            await self._make(pair, volume)
        elif not facts.stranger and not in_use:
            # Neither a claim nor where a volume leads can be changed.
            await self._take_away(pair)

    async def _make(self, pair: Pair, volume: Volume) -> None:
        if pair.volume is None:
            await self.client.create(_volume_content(volume, pair.claim))
        if pair.claim is None:
            await self.client.create(_content(persistent_volume_claim(volume)))
            await self._unbind(pair.volume)

    async def _unbind(self, volume: Content | None) -> None:
        """A volume whose claim was deleted waits for that very one: it is for the new one now."""
        bound = ((volume or {}).get("spec") or {}).get("claimRef") or {}
        if volume is not None and bound.get("uid"):
            version = volume["metadata"]["resourceVersion"]
            body = {
                "metadata": {"resourceVersion": version},
                "spec": {"claimRef": {"uid": None, "resourceVersion": None}},
            }
            await self.client.patch(_VOLUME, None, volume["metadata"]["name"], body)

    async def _take_away(self, pair: Pair) -> None:
        await self._ask_to_go(pair.own)

    async def _ask_to_go(self, objects: Iterable[tuple[str, Content]]) -> None:
        for kind, content in objects:
            if not is_leaving(content):
                metadata = content["metadata"]
                namespace = metadata.get("namespace") if kind == _CLAIM else None
                await self.client.delete(kind, namespace, metadata["name"], uid=metadata["uid"])


def _volume_content(volume: Volume, claim: Mapping[str, Any] | None) -> Content:
    content = _content(persistent_volume(volume))
    if claim is not None:
        # A claim that was bound is bound again only by a volume that names that very one.
        content["spec"]["claimRef"]["uid"] = claim["metadata"]["uid"]
    return content


def _content(thing: PersistentVolume | PersistentVolumeClaim) -> Content:
    content = content_of(thing)
    content.pop("status", None)
    content["metadata"]["labels"] = {MANAGED_LABEL: MANAGER}
    return content
