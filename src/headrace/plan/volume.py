"""The volume of a dataset: what programs mount, as PersistentVolume and claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

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
from headrace.api.ignored import IgnoredField
from headrace.api.metadata import ObjectMeta
from headrace.api.quantities import amount_of

CAPACITY_ANNOTATION = "pvc.fluid.io/resources.requests.storage"
DRIVER = "fuse.csi.fluid.io"
DEFAULT_CAPACITY = "100Gi"
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume and its claim. `dataset` is the one whose mounts show it, `sub_path` the part of it that appears."""

    name: str
    namespace: str
    claim: str
    capacity: str
    access_modes: tuple[AccessMode, ...]
    dataset: str
    sub_path: str = ""


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """The volume and the claim as they are now. `stranger` names the one of them that is not the dataset's.

    `is_leaving`: the deletion of one of them was asked for, and waits for those who use it.
    """

    capacity: Fraction | None = None
    access_modes: frozenset[str] = frozenset()
    dataset: str = ""
    sub_path: str = ""
    is_leaving: bool = False
    stranger: str = ""

    def differences(self, volume: Volume) -> tuple[str, ...]:
        """The differences from the wanted state, in words."""
        return ("is to be deleted",) if self.is_leaving else tuple(self._differences(volume))

    def _differences(self, volume: Volume) -> Iterator[str]:
        if (self.dataset, self.sub_path) != (volume.dataset, volume.sub_path):
            yield "shows other data than is declared now"
        if self.capacity != amount_of(volume.capacity):
            yield "has another size than is declared now"
        if self.access_modes != {mode.value for mode in volume.access_modes}:
            yield "has other access modes than are declared now"


def volume_name(namespace: str, name: str) -> str:
    """The name of a dataset's volume.

    In the namespace `default` it is the dataset's name; elsewhere the namespace follows after a dot, which no name of
    a dataset or a namespace holds, so that no two datasets ever share a volume. Both have 63 characters at the most.
    """
    return name if namespace == DEFAULT_NAMESPACE else f"{name}.{namespace}"


def volume_of(dataset: Dataset, *, sub_path: str = "") -> Volume:
    """The volume of a dataset. Its own mounts show it, also where they read through another one's cluster: those of
    that one are not everywhere, and are for who may use that one.
    """
    namespace = dataset.namespace or DEFAULT_NAMESPACE
    return Volume(
        name=volume_name(namespace, dataset.name),
        namespace=namespace,
        claim=dataset.name,
        capacity=DEFAULT_CAPACITY if ignored_capacity(dataset) else _asked_capacity(dataset),
        # Files are read-only whatever is asked for; this mode is what claims of training jobs ask for.
        access_modes=dataset.spec.access_modes or (AccessMode.READ_WRITE_MANY,),
        dataset=f"{namespace}/{dataset.name}",
        sub_path=sub_path,
    )


def _asked_capacity(dataset: Dataset) -> str:
    return dataset.metadata.annotations.get(CAPACITY_ANNOTATION, DEFAULT_CAPACITY)


def ignored_capacity(dataset: Dataset) -> tuple[IgnoredField, ...]:
    """The annotation with the size of the volume, where it says none."""
    amount = amount_of(_asked_capacity(dataset))
    if amount is not None and amount > 0:
        return ()
    field = f"metadata.annotations[{CAPACITY_ANNOTATION}]"
    return (IgnoredField(field, f"it is no size above zero, {DEFAULT_CAPACITY} is taken"),)


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
                "volumeAttributes": {"dataset": volume.dataset, "subPath": volume.sub_path},
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
