"""The names of a dataset's objects, and the labels by which they are found again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.plan.roles import MASTER_ID, MOUNT_PREFIX, RoleKind, worker_index

MANAGER = "headrace-operator"
APPLICATION = "headrace"

NAME_LABEL = "app.kubernetes.io/name"
MANAGED_LABEL = "app.kubernetes.io/managed-by"
COMPONENT_LABEL = "app.kubernetes.io/component"
DATASET_LABEL = "headrace.io/dataset"
"""Label with the dataset's name, and an annotation of the same name where that is too long for a label."""
INDEX_LABEL = "apps.kubernetes.io/pod-index"
VERSION_ANNOTATION = "headrace.io/version"
TOKEN_VERSION_ANNOTATION = "headrace.io/token-version"  # noqa: S105 - the name of an annotation
"""Of a Dataset: any word; another word than before asks for another token of its cluster."""

TOKEN_ANNOTATION = "headrace.io/token"  # noqa: S105 - the name of an annotation
"""Of pods: a keyed digest of the token that they were started with."""
SETTINGS_ANNOTATION = "headrace.io/settings"
"""Of a mount's pod: the settings file of its command."""
PLACES_ANNOTATION = "headrace.io/places"
"""The nodes that a dataset has ever used, with the folders of its caches there."""
QUOTAS_ANNOTATION = "headrace.io/quotas"
"""The bytes that each worker of a dataset may keep, by medium, as it was started last."""
SWEPT_FINALIZER = "headrace.io/sweep"
"""Of ConfigMaps that an earlier release made: the places stood there, in the namespace of the dataset."""
SWEEPER = "sweep"
PLACES = "places"
"""The component of what notes the places of a dataset, in the operator's own namespace."""
HOME_LABEL = "headrace.io/namespace"
"""Of pods that work for a dataset and run in the operator's own namespace: the namespace of the dataset."""

DRIVER = "csi"
"""The component of the driver's pods, which the chart makes."""
JOB = "job"
"""The component of pods that do the work of an operation."""
OPERATION_LABEL = "headrace.io/operation"
"""The uid of the operation whose work an object is part of."""

NODES_ANNOTATION = "headrace.io/nodes"

NOWHERE_LABEL = "headrace.io/nowhere"
"""On no node: what selects it runs nowhere."""

OURS = {MANAGED_LABEL: MANAGER}

MASTER_PORT = 8700
WORKER_PORT = 8701
COPY_PORT = 8702
METRICS_PORT = 9700

_LONGEST_STEM = 45
"""With `-worker` and the hash that a StatefulSet's controller appends, the 63 characters of a label are full."""
_LONGEST_LABEL = 63
_DIGITS = 8
_SERVICE = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of everything that is made for one dataset."""

    namespace: str
    dataset: str

    @property
    def title(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.dataset}"

    @property
    def stem(self) -> str:
        """The stem of names: the dataset's, or one like it where a Service could not be called so."""
        if len(self.dataset) <= _LONGEST_STEM and _SERVICE.fullmatch(self.dataset):
            return self.dataset
        digest = hashlib.sha256(self.dataset.encode()).hexdigest()[:_DIGITS]
        plain = re.sub("[^-a-z0-9]", "-", self.dataset)
        begin = plain if plain[0].isalpha() else f"d-{plain}"
        return f"{begin[: _LONGEST_STEM - _DIGITS - 1].rstrip('-')}-{digest}"

    @property
    def annotations(self) -> dict[str, str]:
        """Those by which an object is known whose label cannot hold the dataset's name."""
        return {} if self._label == self.dataset else {DATASET_LABEL: self.dataset}

    @property
    def _label(self) -> str:
        return self.dataset if len(self.dataset) <= _LONGEST_LABEL else self.stem

    @property
    def master(self) -> str:
        """StatefulSet and Service of the master."""
        return f"{self.stem}-master"

    @property
    def worker(self) -> str:
        """StatefulSet and headless Service of the workers."""
        return f"{self.stem}-worker"

    @property
    def mount(self) -> str:
        """DaemonSet of the mounts, called as Fluid's users know it."""
        return f"{self.stem}-fuse"

    @property
    def token(self) -> str:
        """Secret with the token of the cluster."""
        return f"{self.stem}-headrace-token"

    @property
    def options(self) -> str:
        """Secret with the options that stand in clear in the Dataset and are secret."""
        return f"{self.stem}-headrace-options"

    @property
    def settings(self) -> str:
        """ConfigMap with the settings of the roles."""
        return f"{self.stem}-headrace-config"

    @property
    def places(self) -> str:
        """ConfigMap of the operator's namespace with the places that are to be swept one day."""
        return f"headrace-places-{hashlib.sha256(self.title.encode()).hexdigest()[:16]}"

    def pod(self, role_id: str) -> str | None:
        """The pod of a role in a StatefulSet; `None` for a mount, whose pod has a name of its own."""
        if role_id == MASTER_ID:
            return f"{self.master}-0"
        index = worker_index(role_id)
        return f"{self.worker}-{index}" if index >= 0 else None

    def labels(self, kind: RoleKind | None = None) -> dict[str, str]:
        """The labels of an object; of a role's with its kind."""
        component = {COMPONENT_LABEL: kind.value} if kind else {}
        return {NAME_LABEL: APPLICATION, **OURS, DATASET_LABEL: self._label, **component}

    def selector(self, kind: RoleKind) -> dict[str, str]:
        """The selector of a role's pods: labels that nobody may change."""
        return {NAME_LABEL: APPLICATION, DATASET_LABEL: self._label, COMPONENT_LABEL: kind.value}


def names_of(title: str) -> Names:
    """Those of the dataset `namespace/name`."""
    namespace, _, dataset = title.partition("/")
    return Names(namespace, dataset)


def dataset_name_of(metadata: Mapping[str, Any]) -> str | None:
    """The name of the dataset for which one of our objects was made; `None` for what is not ours."""
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_LABEL) != MANAGER:
        return None
    name = (metadata.get("annotations") or {}).get(DATASET_LABEL) or labels.get(DATASET_LABEL)
    return str(name) if name else None


def role_id_of(component: str, pod: str, node: str) -> str:
    """The planner's name of the role that a pod runs."""
    if component == RoleKind.MASTER:
        return MASTER_ID
    if component == RoleKind.WORKER:
        return f"worker-{pod.rpartition('-')[2]}"
    return f"{MOUNT_PREFIX}{node}"
