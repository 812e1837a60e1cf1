"""Claims as the planner sees them: the folder or export behind each, and the nodes that have it."""

from __future__ import annotations

from typing import cast

from headrace.api.core import PersistentVolume, PersistentVolumeClaim
from headrace.errors import ConfigError
from headrace.local.datasets.desired_state import DesiredState
from headrace.local.store.records import Record
from headrace.plan.claims import address_of
from headrace.plan.observed import ClaimFacts, ClaimState


def claim_facts(desired: DesiredState) -> dict[str, ClaimFacts]:
    """All claims of the namespace. Every virtual node sees the folders of this machine."""
    return {record.reference.name: _facts(record, desired) for record in desired.of("PersistentVolumeClaim")}


def _facts(claim_record: Record, desired: DesiredState) -> ClaimFacts:
    try:
        return _understood(cast("PersistentVolumeClaim", claim_record.thing()), desired)
    except ConfigError as error:
        return ClaimFacts(ClaimState.PENDING, message=f"it cannot be understood: {error}")


def _understood(claim: PersistentVolumeClaim, desired: DesiredState) -> ClaimFacts:
    name = claim.spec.volume_name
    phase = claim.status.phase if claim.status else None
    if not name or phase != "Bound":
        return ClaimFacts(ClaimState.PENDING, message="no PersistentVolume fits it yet")
    record = desired.find("PersistentVolume", name, "")
    if record is None:
        return ClaimFacts(ClaimState.PENDING, message=f"PersistentVolume {name} does not exist")
    address = address_of(cast("PersistentVolume", record.thing()))
    if not address:
        message = f"PersistentVolume {name} is none of nfs, hostPath and local"
        return ClaimFacts(ClaimState.PENDING, message=message)
    return ClaimFacts(ClaimState.PRESENT, address)
