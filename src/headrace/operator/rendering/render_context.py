"""The facts that only this backend knows, and a person's settings for pods: all that goes into them beside a role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.api.kinds import Runtime
from headrace.api.scheduling import Toleration
from headrace.api.writing import part_content
from headrace.operator.settings import OperatorSettings
from headrace.plan.pod_policy import PART_OF_ROLE, allowed_words
from headrace.plan.policy import Policy
from headrace.plan.roles import RoleKind, digest_of
from headrace.plan.tolerations import allowed_tolerations


@dataclass(frozen=True, slots=True)
class PodWishes:
    """The allowed settings of a runtime for the pods of one role, as Kubernetes writes them."""

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
        made_of += [] if kind is RoleKind.MOUNT else [settings.machine_credentials]
        elsewhere = [self.master, settings.node_folder] if kind is not RoleKind.MASTER else []
        elsewhere += [settings.policy.mount_priority_class] if kind is RoleKind.MOUNT else []
        return digest_of([repr(made_of), elsewhere, repr(self.wishes.get(kind))])


def wishes_of(
    runtime: Runtime | None, policy: Policy, tolerations: tuple[Toleration, ...] = ()
) -> dict[RoleKind, PodWishes]:
    """The allowed settings of a runtime for the pods of each role; `tolerations` are those of the dataset."""
    shared = tuple(part_content(each) for each in allowed_tolerations(tolerations, policy))
    return {kind: _wishes(runtime, kind, policy, shared) for kind in PART_OF_ROLE}


def _wishes(
    runtime: Runtime | None, kind: RoleKind, policy: Policy, tolerations: tuple[Any, ...]
) -> PodWishes:
    # A dataset's tolerations are for master and workers: mounts go wherever programs go.
    wide = tolerations if kind is not RoleKind.MOUNT else ({"operator": "Exists"},)
    if runtime is None:
        return PodWishes(tolerations=wide)
    spec = part_content(runtime.spec)
    part = spec.get(PART_OF_ROLE[kind]) or {}
    allowed = allowed_words(runtime, kind, policy)
    return PodWishes(
        labels=allowed.labels,
        annotations=allowed.annotations,
        environment=tuple({"name": name, "value": value} for name, value in allowed.environment.items()),
        resources=allowed.resources,
        tolerations=(*wide, *allowed.tolerations),
        volumes=allowed.volumes,
        volume_mounts=allowed.volume_mounts,
        pull_secrets=(*(spec.get("imagePullSecrets") or ()), *(part.get("imagePullSecrets") or ())),
    )
