"""The status of a dataset: one status patch an object, events, owners and finalizers."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.api.dataset import Dataset
from headrace.api.names import FINALIZERS
from headrace.errors import HeadraceError, MissingFileError
from headrace.kube.client import Content, KubeClient
from headrace.merge_patch import difference
from headrace.operator.event_correlator import EventCorrelator, EventSeries
from headrace.operator.leaving import is_leaving
from headrace.operator.mirror import Mirror
from headrace.plan.dataset_events import Event
from headrace.reconcile.world import Statement, Subject

_log = logging.getLogger("headrace.operator")

COMPONENT = "headrace-operator"


@dataclass(frozen=True, slots=True)
class StatusWriter:
    """Writes what is said. Every write is of one object, and repeated by the next pass if it fails."""

    client: KubeClient
    mirror: Mirror
    identity: str
    on_change: EventCorrelator = field(default_factory=EventCorrelator)

    async def write(self, statement: Statement) -> None:
        """Status, events and our finalizers of one object, which may be gone meanwhile."""
        kind, namespace, name = statement.about.kind, statement.about.namespace, statement.about.name
        known = self._find(statement.about)
        if known is None:
            return
        try:
            if statement.finalizers is not None:
                await self._set_finalizers(kind, known, statement.finalizers)
            before = known.get("status") or {}
            if statement.status is not None and (patch := difference(before, statement.status)):
                await self.client.patch(kind, namespace, name, {"status": patch}, "status")
        except MissingFileError:
            return
        for event in statement.events:
            if event.kind == kind:
                await self.record_event(known, kind, event)

    def _find(self, subject: Subject) -> Content | None:
        """The object as it was seen last; `None` where it is gone, or another one has its name."""
        known = self.mirror.get(subject.kind, subject.namespace, subject.name)
        return known if known is not None and known["metadata"]["uid"] == subject.uid else None

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

    async def set_owner_reference(self, subject: Subject, owner: Dataset | None) -> None:
        """Makes an object go with its dataset, as in Fluid."""
        kind, namespace, name = subject.kind, subject.namespace, subject.name
        known = self._find(subject)
        if known is None or owner is None or kind == "Dataset":
            return
        leaving = is_leaving(known) or owner.metadata.deletion_timestamp
        if leaving or (owner.metadata.namespace or "default") != namespace:
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
