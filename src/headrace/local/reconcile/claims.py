"""Claims as the planner sees them: the folder or export behind each, and the nodes that have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from headrace.api.core import PersistentVolume, PersistentVolumeClaim
from headrace.local.reconcile.scene import Scene
from headrace.plan.observed import ClaimFacts, ClaimState


def claim_facts(scene: Scene) -> dict[str, ClaimFacts]:
    """All claims of the namespace. Every virtual node sees the folders of this machine."""
    return {
        record.reference.name: _facts(cast("PersistentVolumeClaim", record.thing()), scene)
        for record in scene.of("PersistentVolumeClaim")
    }


def _facts(claim: PersistentVolumeClaim, scene: Scene) -> ClaimFacts:
    name = claim.spec.volume_name
    phase = claim.status.phase if claim.status else None
    if not name or phase != "Bound":
        return ClaimFacts(ClaimState.PENDING, message="no PersistentVolume fits it yet")
    record = scene.find("PersistentVolume", name, "")
    if record is None:
        return ClaimFacts(ClaimState.PENDING, message=f"PersistentVolume {name} does not exist")
    address = address_of(cast("PersistentVolume", record.thing()))
    if not address:
        message = f"PersistentVolume {name} is none of nfs, hostPath and local"
        return ClaimFacts(ClaimState.PENDING, message=message)
    return ClaimFacts(ClaimState.PRESENT, address)


def address_of(volume: PersistentVolume) -> str:
    """Where the files of a volume are, as an address of an origin; empty for a kind that cannot be read.

    Of the options of an NFS mount the port counts; all others are for the kernel's client, which is not used.
    """
    spec = volume.spec
    if spec.nfs is not None:
        server = f"[{spec.nfs.server}]" if ":" in spec.nfs.server else spec.nfs.server
        return f"nfs://{server}{_port(spec.mount_options)}/{spec.nfs.path.strip('/')}"
    folder = spec.host_path or spec.local
    return f"local:///{folder.path.strip('/')}" if folder is not None else ""


def _port(options: Iterable[str]) -> str:
    ports = [option.removeprefix("port=") for option in options if option.startswith("port=")]
    return f":{ports[-1]}" if ports and ports[-1].isdecimal() else ""
