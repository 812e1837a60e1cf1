"""The status of a dataset: one status patch an object, events, owners and finalizers."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.api.dataset import Dataset
from headrace.api.names import FINALIZERS
from headrace.api.writing import part_content
from headrace.errors import HeadraceError, MissingFileError
from headrace.kube.client import Content, KubeClient
from headrace.merge_patch import difference
from headrace.operator.event_correlator import EventCorrelator, EventSeries
from headrace.operator.mirror import Mirror
from headrace.plan.dataset_events import Event
from headrace.plan.refusals import refusal_of
from headrace.reconcile.world import Status, Thing

_log = logging.getLogger("headrace.operator")

COMPONENT = "headrace-operator"


@dataclass(frozen=True, slots=True)
class StatusWriter:
    """Writes what is said. Every write is of one object, and repeated by the next pass if it fails."""

    client: KubeClient
    mirror: Mirror
    identity: str
    on_change: EventCorrelator = field(default_factory=EventCorrelator)

    async def write_status(
        self, thing: Thing, status: Status | None, events: Iterable[Event], finalizers: Iterable[str]
    ) -> None:
        """Status, events and our finalizers of one object, which may be gone meanwhile."""
        kind, namespace, name = thing.kind, thing.metadata.namespace or "default", thing.metadata.name
        known = self.mirror.get(kind, namespace, name)
        if known is None or known["metadata"]["uid"] != thing.metadata.uid:
            return
        try:
            await self._set_finalizers(kind, known, finalizers)
            if status is not None and (patch := difference(known.get("status") or {}, part_content(status))):
                await self.client.patch(kind, namespace, name, {"status": patch}, "status")
        except MissingFileError:
            return
        for event in events:
            if event.kind == kind:
                await self.record_event(known, kind, event)

    async def write_refusal(self, kind: str, known: Content, error: HeadraceError, now: datetime) -> None:
        """Says of a Dataset or an operation that it makes no sense: in its status, and by an event."""
        refusal = refusal_of(kind, known.get("status"), error, now)
        namespace, name = known["metadata"].get("namespace") or "default", known["metadata"]["name"]
        try:
            if patch := difference(known.get("status") or {}, refusal.status):
                await self.client.patch(kind, namespace, name, {"status": patch}, "status")
        except MissingFileError:
            return
        for event in refusal.events:
            await self.record_event(known, kind, event)

    async def remove_finalizer(self, kind: str, known: Content) -> None:
        """Takes our finalizer off an object that nobody understands and that is to go."""
        try:
            await self._set_finalizers(kind, known, ())
        except MissingFileError:
            return

    async def record_event(self, about: Content, kind: str, event: Event) -> None:
        """An event about an object, for `kubectl describe`. Where it cannot be written, nothing waits for it."""
        now = datetime.now(UTC)
        words = f"{about['metadata']['uid']} {event.type} {event.reason} {event.message}"
        digest = hashlib.sha256(words.encode()).hexdigest()[:16]
        if (times := self.on_change.next(digest, now)) is None:
            return
        try:
            await self.client.apply(self._event(about, kind, event, times, digest))
        except HeadraceError as error:
            # A namespace on its way out takes in nothing new.
            _log.info("an event about %s %s is not written: %s", kind, about["metadata"]["name"], error)

    def _event(self, about: Content, kind: str, event: Event, times: EventSeries, digest: str) -> Content:
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        name = metadata["name"][:200].rstrip("-.")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{digest}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.get("apiVersion", "data.fluid.io/v1alpha1"),
                "kind": kind,
                "name": metadata["name"],
                "namespace": namespace,
                "uid": metadata["uid"],
            },
            "type": event.type.value,
            "reason": event.reason,
            "message": event.message[:1024],
            "count": times.count,
            "firstTimestamp": f"{times.first:%Y-%m-%dT%H:%M:%SZ}",
            "lastTimestamp": f"{times.last:%Y-%m-%dT%H:%M:%SZ}",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.identity,
        }

    async def set_owner_reference(self, thing: Thing, owner: Dataset | None) -> None:
        """Has an object go with its dataset, as in Fluid."""
        if owner is None or thing.kind == "Dataset":
            return
        kind, namespace, name = thing.kind, thing.metadata.namespace or "default", thing.metadata.name
        known = self.mirror.get(kind, namespace, name)
        leaving = thing.metadata.deletion_timestamp or owner.metadata.deletion_timestamp
        if known is None or leaving or (owner.metadata.namespace or "default") != namespace:
            return
        owners = known["metadata"].get("ownerReferences") or []
        if any(each["uid"] == owner.metadata.uid for each in owners):
            return
        kept = [each for each in owners if each.get("kind") != "Dataset"]
        own = {
            "apiVersion": owner.api_version,
            "kind": "Dataset",
            "name": owner.metadata.name,
            "uid": owner.metadata.uid,
        }
        metadata = {
            "ownerReferences": [*kept, own],
            "resourceVersion": known["metadata"]["resourceVersion"],
        }
        await self.client.patch(kind, namespace, name, {"metadata": metadata})

    async def _set_finalizers(self, kind: str, known: Content, finalizers: Iterable[str]) -> None:
        metadata = known["metadata"]
        present = metadata.get("finalizers") or []
        wanted = [*(each for each in present if each not in FINALIZERS.values()), *finalizers]
        if wanted == present or (metadata.get("deletionTimestamp") and set(wanted) - set(present)):
            return
        # With the version that was read, so that nobody else's finalizer is lost.
        patch = {"metadata": {"finalizers": wanted, "resourceVersion": metadata["resourceVersion"]}}
        await self.client.patch(kind, metadata.get("namespace"), metadata["name"], patch)
