"""The volume of a dataset: what programs mount, as PersistentVolume and claim."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.core import (
    ClaimReference,
    ClaimResources,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
)
from headrace.api.dataset import AccessMode, Dataset
from headrace.api.metadata import ObjectMeta

CAPACITY_ANNOTATION = "pvc.fluid.io/resources.requests.storage"
DRIVER = "fuse.csi.fluid.io"
DEFAULT_CAPACITY = "100Gi"
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume and its claim. `cluster` is the dataset whose mounts show it, `sub_path` the part of it that appears."""

    name: str
    namespace: str
    claim: str
    capacity: str
    access_modes: tuple[AccessMode, ...]
    cluster: str
    sub_path: str = ""


def volume_of(dataset: Dataset, *, cluster: str | None = None, sub_path: str = "") -> Volume:
    """The volume of a dataset.

    In the namespace `default` it has the dataset's name; elsewhere the namespace follows after a dot, which no name of
    a dataset or a namespace holds, so that no two datasets ever share a volume.
    """
    namespace = dataset.namespace or DEFAULT_NAMESPACE
    own = dataset.name if namespace == DEFAULT_NAMESPACE else f"{dataset.name}.{namespace}"
    return Volume(
        name=own,
        namespace=namespace,
        claim=dataset.name,
        capacity=dataset.metadata.annotations.get(CAPACITY_ANNOTATION, DEFAULT_CAPACITY),
        # Files are read-only whatever is asked for; this mode is what claims of training jobs ask for.
        access_modes=dataset.spec.access_modes or (AccessMode.READ_WRITE_MANY,),
        cluster=cluster or f"{namespace}/{dataset.name}",
        sub_path=sub_path,
    )


def persistent_volume(volume: Volume) -> PersistentVolume:
    """The volume as Kubernetes has it, bound to its claim."""
    return PersistentVolume(
        metadata=ObjectMeta(name=volume.name),
        spec=PersistentVolumeSpec(
            capacity={"storage": volume.capacity},
            access_modes=volume.access_modes,
            persistent_volume_reclaim_policy="Retain",
            volume_mode="Filesystem",
            claim_ref=ClaimReference(
                kind="PersistentVolumeClaim", name=volume.claim, namespace=volume.namespace
            ),
            csi={
                "driver": DRIVER,
                "volumeHandle": volume.name,
                "readOnly": True,
                "volumeAttributes": {"dataset": volume.cluster, "subPath": volume.sub_path},
            },
        ),
        status=PersistentVolumeStatus(phase="Bound"),
    )


def persistent_volume_claim(volume: Volume) -> PersistentVolumeClaim:
    """Its claim."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=volume.claim, namespace=volume.namespace),
        spec=PersistentVolumeClaimSpec(
            access_modes=volume.access_modes,
            resources=ClaimResources(requests={"storage": volume.capacity}),
            storage_class_name="",
            volume_mode="Filesystem",
            volume_name=volume.name,
        ),
        status=PersistentVolumeClaimStatus(
            phase="Bound", access_modes=volume.access_modes, capacity={"storage": volume.capacity}
        ),
    )
