"""One dataset as it is declared and stands at one moment: its objects out of the mirror, as models."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from headrace.api.core import PersistentVolume, PersistentVolumeClaim
from headrace.api.dataset import Dataset, Placement
from headrace.api.kinds import OPERATIONS, RUNTIMES, Operation, Runtime
from headrace.api.manifests import object_of
from headrace.errors import ConfigError
from headrace.operator.leaving import is_leaving
from headrace.operator.mirror import Content, Mirror
from headrace.operator.reference_index import operations_of, pods_of, referrers_of
from headrace.operator.rendering.naming import (
    COMPONENT_LABEL,
    PLACES_ANNOTATION,
    QUOTAS_ANNOTATION,
    SWEEPER,
    Names,
    names_of,
)
from headrace.operator.settings import OperatorSettings
from headrace.plan.declared import Declared, chosen_runtime, referred_datasets
from headrace.plan.policy import Policy
from headrace.plan.refusals import dataset_that_leaves, operation_that_leaves
from headrace.plan.roles import RoleKind
from headrace.plan.sharing import allowed_referrers, allows, shared_with_of
from headrace.reconcile.world import Refused, Subject
from headrace.work_queue import Dataset as Key


@dataclass(frozen=True)
class DesiredState:
    """One dataset. `declared` is `None` when neither it nor a runtime is there.

    Reading what makes no sense raises `ConfigError`, unless it is `lenient`: then a Dataset is known by its metadata
    alone, and such a runtime counts for none. That is enough to take everything down.
    """

    mirror: Mirror
    key: Key
    lenient: bool = False

    @property
    def as_far_as_understood(self) -> DesiredState:
        """The same; without what makes no sense, if something does not."""
        return self if self._fault is None else replace(self, lenient=True)

    @property
    def _fault(self) -> ConfigError | None:
        """Why the dataset, a runtime of its name, or a dataset that it refers to makes no sense."""
        try:
            _ = (replace(self, lenient=False) if self.lenient else self).declared
        except ConfigError as error:
            return error
        return None

    @property
    def is_leaving(self) -> bool:
        """True when the deletion of the Dataset, or of a runtime of its name, was asked for."""
        found = (self.mirror.get(kind, *self.key) for kind in ("Dataset", *RUNTIMES))
        return any(is_leaving(each) for each in found if each)

    @property
    def title(self) -> str:
        """`namespace/name`."""
        return "/".join(self.key)

    @property
    def names(self) -> Names:
        """The names of its objects."""
        return Names(*self.key)

    @cached_property
    def dataset(self) -> Dataset | None:
        """The Dataset."""
        try:
            return _dataset(self.mirror, self.key)
        except ConfigError:
            content = self.mirror.get("Dataset", *self.key)
            if not self.lenient or content is None:
                raise
            return dataset_that_leaves(content)

    @cached_property
    def runtimes(self) -> dict[str, Runtime]:
        """The runtimes of its name, by kind."""
        found = {kind: _runtime(self.mirror, kind, self.key, lenient=self.lenient) for kind in RUNTIMES}
        return {kind: each for kind, each in found.items() if each}

    @cached_property
    def runtime(self) -> Runtime | None:
        """The runtime that serves it."""
        return chosen_runtime(self.dataset, self.runtimes.values())

    @cached_property
    def declared(self) -> Declared | None:
        """The declarations, for the planner."""
        if self.dataset is None and self.runtime is None:
            return None
        references = _references(self.mirror, self.dataset, lenient=self.lenient)
        return Declared(self.dataset, self.runtime, references)

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The operations that are planned in its passes."""
        found = operations_of(self.mirror, self.key)
        read = (_operation(kind, content) for kind, content in found)
        return tuple(each for each in read if not isinstance(each, ConfigError))

    @property
    def refused(self) -> list[Refused]:
        """Declarations that the API server took and that make no sense: dataset, runtimes, operations. A dataset that
        refers to one which makes no sense is refused for that.
        """
        own = self.mirror.get("Dataset", *self.key)
        found = [
            _refused(kind, content, error, own)
            for kind in ("Dataset", *RUNTIMES)
            if self.lenient and (content := self.mirror.get(kind, *self.key))
            if (error := _fault_of(kind, content))
        ]
        if self.lenient and own and not found and (fault := self._fault):
            found = [_refused("Dataset", own, fault, own)]
        operations = operations_of(self.mirror, self.key)
        read = ((kind, content, _fault_of(kind, content)) for kind, content in operations)
        return [*found, *(_refused(kind, content, error, content) for kind, content, error in read if error)]

    @property
    def referrers(self) -> tuple[str, ...]:
        """Datasets that refer to it and may. Datasets that came too late to be read through it do not keep one that is
        to go.
        """
        own = self.mirror.get("Dataset", *self.key)
        found = allowed_referrers(map("/".join, referrers_of(self.mirror, self.key)), own, self.title)
        if own is not None and is_leaving(own):
            found = {title for title in found if _shows_files(self.mirror.get("Dataset", *_key(title)))}
        return tuple(sorted(found))

    def pods(self, kind: RoleKind | None = None) -> list[Content]:
        """Its own pods, of one kind of role if one is given."""
        return [
            pod
            for pod in pods_of(self.mirror, self.key)
            # Who works for it elsewhere is none of its roles, whatever the labels say.
            if pod["metadata"].get("namespace") == self.key[0]
            and component_of(pod) in _ROLES
            and kind in (None, component_of(pod))
        ]

    def sweepers(self, namespace: str) -> dict[str, Content]:
        """The pods of the operator's namespace that take away what it left on nodes, by node."""
        pods = (pod for pod in pods_of(self.mirror, self.key) if component_of(pod) == SWEEPER)
        return {pod["spec"]["nodeName"]: pod for pod in pods if pod["metadata"].get("namespace") == namespace}

    def places(self, settings: OperatorSettings) -> dict[str, list[str]]:
        """The nodes that it has ever used, each with the folders in which it had a cache there."""
        own = self.mirror.get("ConfigMap", settings.namespace, self.names.places)
        if own is not None:
            noted = noted_in(own, PLACES_ANNOTATION)
            return dict(noted) if isinstance(noted, dict) else {}
        return self._former_places(settings.policy)

    def _former_places(self, policy: Policy) -> dict[str, list[str]]:
        """The same as an earlier release noted it, where tenants write: no folder counts but the administrator's."""
        noted = noted_in(self.mirror.get("ConfigMap", self.key[0], self.names.settings), PLACES_ANNOTATION)
        if not isinstance(noted, dict):
            return {}
        return {
            node: [each for each in policy.cache_folders if isinstance(roots, list) and each in roots]
            for node, roots in noted.items()
        }

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        """A claim of its namespace."""
        content = self.mirror.get("PersistentVolumeClaim", self.key[0], name)
        return (
            cast(
                "PersistentVolumeClaim", object_of(_with_kind(content, "PersistentVolumeClaim"), lenient=True)
            )
            if content
            else None
        )

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume."""
        content = self.mirror.get("PersistentVolume", "", name)
        return (
            cast("PersistentVolume", object_of(_with_kind(content, "PersistentVolume"), lenient=True))
            if content
            else None
        )


_CHAIN = 2
_ROLES = frozenset(kind.value for kind in RoleKind)


def _shows_files(dataset: Content | None) -> bool:
    """True for a dataset that programs may read."""
    return bool(((dataset or {}).get("status") or {}).get("mounts"))


def noted_in(content: Content | None, annotation: str) -> Any:
    """The value of an annotation; `None` when it has none, or a person wrote something else into it."""
    metadata = (content or {}).get("metadata") or {}
    try:
        return json.loads((metadata.get("annotations") or {}).get(annotation, "null"))
    except ValueError:
        return None


def component_of(pod: Content) -> str:
    """The kind of role that a pod runs."""
    return str((pod["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))


def is_exclusive(mirror: Mirror, title: str) -> bool:
    """True for a dataset whose workers share no node."""
    namespace, _, name = title.partition("/")
    content = mirror.get("Dataset", namespace, name)
    return content is not None and (content.get("spec") or {}).get("placement") != Placement.SHARED


def noted_quotas(mirror: Mirror, namespace: str, title: str) -> dict[str, int]:
    """The bytes that each worker of a dataset may keep, by medium, as it was started last: noted where tenants do not
    write, in the operator's own `namespace`.
    """
    noted = noted_in(mirror.get("ConfigMap", namespace, names_of(title).places), QUOTAS_ANNOTATION)
    return {str(medium): int(size) for medium, size in noted.items()} if isinstance(noted, dict) else {}


def _dataset(mirror: Mirror, key: Key) -> Dataset | None:
    content = mirror.get("Dataset", *key)
    return cast("Dataset", object_of(_with_kind(content, "Dataset"), lenient=True)) if content else None


def _runtime(mirror: Mirror, kind: str, key: Key, *, lenient: bool) -> Runtime | None:
    content = mirror.get(kind, *key)
    try:
        return cast("Runtime", object_of(content, kind, lenient=True)) if content else None
    except ConfigError:
        if lenient:
            return None
        raise


def _operation(kind: str, content: Content) -> Operation | ConfigError:
    try:
        return cast("Operation", object_of(_with_kind(content, kind), lenient=True))
    except ConfigError as error:
        return error


def _fault_of(kind: str, content: Content) -> ConfigError | None:
    try:
        object_of(_with_kind(content, kind), lenient=True)
    except ConfigError as error:
        return error
    return None


def _refused(kind: str, content: Content, fault: ConfigError, told_of: Content | None) -> Refused:
    return Refused(
        _subject(kind, content),
        fault,
        is_leaving(content),
        _subject("Dataset" if kind in RUNTIMES else kind, told_of) if told_of else None,
        (told_of or {}).get("status"),
        operation_that_leaves({**content, "kind": kind}) if kind in OPERATIONS else None,
    )


def _subject(kind: str, content: Content) -> Subject:
    metadata = content["metadata"]
    return Subject(kind, metadata.get("namespace") or "default", metadata["name"], metadata["uid"])


def _with_kind(content: Content, kind: str) -> Content:
    """Items of a list say neither kind nor version."""
    version = "v1" if kind.startswith("Persistent") else "data.fluid.io/v1alpha1"
    return {"apiVersion": version, "kind": kind, **content}


def _references(mirror: Mirror, dataset: Dataset | None, *, lenient: bool) -> dict[str, Dataset]:
    """The datasets that it refers to, and those that these refer to, as far as they exist. No chain is longer."""
    found: dict[str, Dataset] = {}
    wanted = referred_datasets(dataset) if dataset else []
    for _ in range(_CHAIN):
        fresh = {title: _other(mirror, title, dataset, lenient=lenient) for title in wanted}
        found |= {title: other for title, other in fresh.items() if other is not None}
        wanted = [
            each
            for other in fresh.values()
            if other
            for each in referred_datasets(other)
            if each not in found
        ]
    return found


def _other(mirror: Mirror, title: str, dataset: Dataset | None, *, lenient: bool) -> Dataset | None:
    """One of them. What is wrong with one of another namespace is told to nobody here, and that there is one only to
    whom it is shared with.
    """
    own = (dataset.namespace if dataset else None) or "default"
    try:
        return DesiredState(mirror, _key(title), lenient=lenient).dataset
    except ConfigError:
        if title.partition("/")[0] == own:
            raise
        if not allows(shared_with_of(mirror.get("Dataset", *_key(title))), title, own):
            return None
        raise ConfigError.of(
            f"dataset {title}, which it refers to, makes no sense at present", hint="its owners see why"
        ) from None


def _key(title: str) -> Key:
    namespace, _, name = title.partition("/")
    return namespace, name
