"""What only this backend knows, and what a person wants on pods: all that goes into them beside a role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.api.kinds import Runtime
from headrace.api.writing import part_content
from headrace.operator.settings import OperatorSettings
from headrace.plan.roles import RoleKind, digest_of

_PARTS = {RoleKind.MASTER: "master", RoleKind.WORKER: "worker", RoleKind.MOUNT: "fuse"}


@dataclass(frozen=True, slots=True)
class PodWishes:
    """What a runtime says of the pods of one role, as Kubernetes writes it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    environment: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    pull_secrets: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class RenderContext:
    """Settings, addresses and wishes. `master` is the URL under which the master of the cluster answers, if known."""

    settings: OperatorSettings
    master: str
    wishes: Mapping[RoleKind, PodWishes] = field(default_factory=dict)
    owner: Mapping[str, Any] | None = None
    restore_node: str = ""
    """The node that has the backup which the master begins with, where it lies in a folder of one."""

    can_restore: bool = True
    """False when that node is away, and the master needs nothing of it: it lists the origins again elsewhere."""

    token: str = ""
    """What pods note of the token that they are started with: a keyed digest."""

    def version(self, kind: RoleKind) -> str:
        """Changes when a pod of this kind would be made differently for the same role."""
        settings = self.settings
        made_of: list[Any] = [settings.engine, settings.log_level, settings.log_format]
        elsewhere = [self.master, settings.node_folder] if kind is not RoleKind.MASTER else []
        return digest_of([repr(made_of), elsewhere, repr(self.wishes.get(kind))])


def wishes_of(runtime: Runtime | None, tolerations: tuple[Any, ...] = ()) -> dict[RoleKind, PodWishes]:
    """What a runtime wants of the pods of each role; `tolerations` are those of the dataset."""
    spec = part_content(runtime.spec) if runtime is not None else {}
    shared = tuple(part_content(each) for each in tolerations)
    return {kind: _wishes(spec, spec.get(part) or {}, kind, shared) for kind, part in _PARTS.items()}


def _wishes(
    spec: Mapping[str, Any], part: Mapping[str, Any], kind: RoleKind, tolerations: tuple[Any, ...]
) -> PodWishes:
    metadata = [each.get("podMetadata") or {} for each in (spec, part)]
    mounts = tuple(part.get("volumeMounts") or ())
    mounted = {each["name"] for each in mounts}
    # A dataset's tolerations are for master and workers: mounts go wherever programs go.
    wide = tolerations if kind is not RoleKind.MOUNT else ({"operator": "Exists"},)
    return PodWishes(
        labels=_merged(spec.get("labels"), part.get("labels"), *(each.get("labels") for each in metadata)),
        annotations=_merged(*(each.get("annotations") for each in metadata)),
        environment=tuple({"name": name, "value": value} for name, value in (part.get("env") or {}).items()),
        resources=part.get("resources") or {},
        tolerations=(*wide, *(part.get("tolerations") or ())),
        volumes=tuple(each for each in spec.get("volumes") or () if each["name"] in mounted),
        volume_mounts=mounts,
        pull_secrets=(*(spec.get("imagePullSecrets") or ()), *(part.get("imagePullSecrets") or ())),
    )


def _merged(*parts: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for part in parts if part for key, value in part.items()}
