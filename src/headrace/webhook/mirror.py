"""The webhook's knowledge of datasets, runtimes and claims: copies that watches keep, so that no question waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Protocol

from headrace.api.kinds import KINDS
from headrace.errors import HeadraceError, MissingFileError
from headrace.plan.sharing import allows, shared_with_of
from headrace.webhook.affinity import Alternatives
from headrace.webhook.data_nodes import MANAGED_LABEL, OPERATOR, homes_of

_log = logging.getLogger("headrace.webhook")

_AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0)
_RUNTIMES = tuple(name for name in KINDS if name.endswith("Runtime"))
_CLAIMS = "PersistentVolumeClaim"
_OURS = {MANAGED_LABEL: OPERATOR}

Content = dict[str, Any]


class Watches(Protocol):
    """The calls of a `KubeClient` that the mirror needs."""

    async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
        """The object, or `None`."""

    def watch(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Content]]:
        """All objects as SYNC, then SYNCED, then every change."""


def _of_dataset(content: Content) -> Content:
    mounts = (content.get("spec") or {}).get("mounts") or []
    points = [{"mountPoint": each.get("mountPoint", "")} for each in mounts]
    return {"spec": {"mounts": points, "sharedWith": list(shared_with_of(content))}}


def _of_runtime(content: Content) -> Content:
    return {"status": {"cacheAffinity": (content.get("status") or {}).get("cacheAffinity")}}


def _of_claim(content: Content) -> Content:
    metadata = content["metadata"]
    return {"metadata": {key: metadata[key] for key in ("labels", "deletionTimestamp") if metadata.get(key)}}


class Copy:
    """The objects of one kind, with just the fields that are looked at: there may be many of them."""

    def __init__(self, kind: str, kept: Callable[[Content], Content]) -> None:
        self.kind = kind
        self.objects: dict[tuple[str, str], Content] = {}
        self.is_whole = asyncio.Event()
        self._kept = kept
        self._arriving: dict[tuple[str, str], Content] = {}

    def learn(self, change: str, content: Content) -> None:
        """Takes in one event of a watch. A list replaces what is known when it is whole, and not before."""
        if change == "SYNCED":
            self.objects, self._arriving = self._arriving, {}
            self.is_whole.set()
            return
        key = (content["metadata"].get("namespace", ""), content["metadata"]["name"])
        if change == "DELETED":
            self.objects.pop(key, None)
        elif change == "SYNC":
            self._arriving[key] = self._kept(content)
        else:
            self.objects[key] = self._kept(content)

    def begin(self) -> None:
        """A list is about to come."""
        self._arriving = {}


class Mirror:
    """Copies of everything that decisions need."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._datasets = Copy("Dataset", _of_dataset)
        self._runtimes = tuple(Copy(kind, _of_runtime) for kind in _RUNTIMES)
        self._claims = Copy(_CLAIMS, _of_claim)

    @property
    def is_whole(self) -> bool:
        """True once everything was listed."""
        return all(copy.is_whole.is_set() for copy in self._copies)

    async def follow(self) -> None:
        """Keeps the copies up to date, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for copy in self._copies:
                group.create_task(self._follow(copy), name=f"watch {copy.kind}")

    async def homes(self, namespace: str, claims: Iterable[str]) -> dict[str, Alternatives]:
        """The homes of the datasets behind these claims. Waits until everything was listed once."""
        for copy in self._copies:
            await copy.is_whole.wait()
        return homes_of(
            namespace,
            claims,
            datasets=self._datasets.objects,
            runtimes=[copy.objects for copy in self._runtimes],
            volumes=self._claims.objects,
        )

    def leaving(self, namespace: str, claims: Iterable[str]) -> tuple[str, ...]:
        """Those of these claims that are ours and are being deleted: Kubernetes lets no pod begin with them."""
        known = ((claim, self._claims.objects.get((namespace, claim))) for claim in claims)
        return tuple(claim for claim, each in known if each and each["metadata"].get("deletionTimestamp"))

    async def is_shared(self, dataset: str, namespace: str) -> bool:
        """True when the owner of the dataset `namespace/name` lets a namespace read it. Waits for the first list.

        Consent may be younger than what is known here, so before anybody is refused, the API server is asked.
        """
        owner, _, name = dataset.partition("/")
        await self._datasets.is_whole.wait()
        if allows(shared_with_of(self._datasets.objects.get((owner, name))), dataset, namespace):
            return True
        found = await self._watches.get("Dataset", owner, name)
        return allows(shared_with_of(found), dataset, namespace)

    @property
    def _copies(self) -> tuple[Copy, ...]:
        return (self._datasets, *self._runtimes, self._claims)

    async def _follow(self, copy: Copy) -> None:
        labels = _OURS if copy.kind == _CLAIMS else None
        failures = 0
        while True:
            try:
                copy.begin()
                async for change, content in self._watches.watch(copy.kind, labels=labels):
                    copy.learn(change, content)
                    failures = 0
            except MissingFileError:
                copy.learn("SYNCED", {})  # the kind is not installed
            except HeadraceError as error:
                _log.warning("watch %s: %s", copy.kind, error)
            except Exception:  # it must go on, whatever an answer held
                _log.exception("watch %s", copy.kind)
            await asyncio.sleep(_AGAIN_S[min(failures, len(_AGAIN_S) - 1)])
            failures += 1
