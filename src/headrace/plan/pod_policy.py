"""How far a runtime's words for pods are followed: an allow-list. Settings that are left out are named, each with the
reason.

A pod of a mount is privileged, and pods of master and workers write to the nodes' disks as root. So nothing that a
tenant writes may be code there, or lead to a folder, a device or another identity: neither by variables and volumes,
nor by annotations that other programs of the cluster act on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.api.ignored import IgnoredField
from headrace.api.kinds import Runtime
from headrace.api.quantities import amount_of
from headrace.api.scheduling import Toleration
from headrace.api.tiers import normal_path
from headrace.api.writing import part_content
from headrace.plan.mount_addresses import opened
from headrace.plan.policy import Policy
from headrace.plan.roles import RoleKind
from headrace.plan.tolerations import fault_of_taint, refused_tolerations

Content = Mapping[str, Any]

PART_OF_ROLE: Mapping[RoleKind, str] = {
    RoleKind.MASTER: "master",
    RoleKind.WORKER: "worker",
    RoleKind.MOUNT: "fuse",
}
"""The part of a runtime's spec that is about a role."""

_PRIVILEGED = "mounts are privileged, and take none of a runtime"
_ASK = "have the administrator add it to policy.{} of the chart's values"


@dataclass(frozen=True, slots=True)
class AllowedWords:
    """The allowed settings of a runtime for the pods of one role."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    environment: Mapping[str, str]
    resources: Content
    volumes: tuple[Content, ...]
    volume_mounts: tuple[Content, ...]
    tolerations: tuple[Content, ...]


def allowed_words(runtime: Runtime, kind: RoleKind, policy: Policy) -> AllowedWords:
    """The settings of a runtime that go into the pods of a role."""
    words = _Words(part_content(runtime.spec), kind, policy)
    mounts = tuple(words.part["volumeMounts"][number] for number, why in words.judged_mounts() if not why)
    mounted = {each["name"] for each in mounts}
    return AllowedWords(
        labels=words.metadata("labels"),
        annotations=words.metadata("annotations"),
        environment={name: value for name, value in words.environment if not words.fault_of_variable(name)},
        resources=words.resources(),
        volumes=tuple(each for each in words.volumes.values() if each["name"] in mounted),
        volume_mounts=mounts,
        tolerations=tuple(part for part, why in words.judged_tolerations() if not why),
    )


def refused_fields(
    runtime: Runtime, policy: Policy | None, of_dataset: tuple[Toleration, ...] = ()
) -> tuple[IgnoredField, ...]:
    """The fields of a runtime, and tolerations of its dataset, that the policy leaves out; none without a policy."""
    if policy is None:
        return ()
    spec = part_content(runtime.spec)
    # What stands for all roles is said once.
    found = {field.path: field for kind in PART_OF_ROLE for field in _Words(spec, kind, policy).refused()}
    shared = (
        IgnoredField(f"spec.tolerations[{number}] of the dataset", why)
        for number, why in refused_tolerations(of_dataset, policy)
    )
    return (*found.values(), *shared)


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a runtime's spec about one role, beside the policy."""

    spec: Content
    kind: RoleKind
    policy: Policy

    @property
    def name(self) -> str:
        return PART_OF_ROLE[self.kind]

    @property
    def part(self) -> Content:
        return self.spec.get(self.name) or {}

    @property
    def environment(self) -> list[tuple[str, str]]:
        return list((self.part.get("env") or {}).items())

    @property
    def volumes(self) -> dict[str, Content]:
        return {each["name"]: each for each in self.spec.get("volumes") or ()}

    @property
    def is_privileged(self) -> bool:
        return self.kind is RoleKind.MOUNT

    def refused(self) -> Iterator[IgnoredField]:
        """All that is left out."""
        here = f"spec.{self.name}"
        for name, _ in self.environment:
            if why := self.fault_of_variable(name):
                yield IgnoredField(f"{here}.env.{name}", why)
        for number, why in self.judged_mounts():
            if why:
                yield IgnoredField(f"{here}.volumeMounts[{number}]", why)
        for path, key, _ in self._keys("labels", "annotations"):
            if why := self._fault_of_key(key):
                yield IgnoredField(f"{path}.{key}", why)
        for path, _, why in self._judged_resources():
            if why:
                yield IgnoredField(f"{here}.resources.{path}", why)
        for number, (_, why) in enumerate(self.judged_tolerations()):
            if why:
                yield IgnoredField(f"{here}.tolerations[{number}]", why)

    def fault_of_variable(self, name: str) -> str:
        """Why a variable is left out; empty for one that is allowed."""
        if self.is_privileged:
            return _PRIVILEGED
        return "" if name in self.policy.environment else _ASK.format("environment")

    def judged_tolerations(self) -> Iterator[tuple[Content, str]]:
        """Tolerations, each with why it is left out. Mounts go wherever programs go, whatever a runtime says."""
        for each in self.part.get("tolerations") or ():
            is_taken = self.is_privileged or self.policy.takes_taint(each.get("key"))
            yield each, "" if is_taken else fault_of_taint(each.get("key"))

    def judged_mounts(self) -> Iterator[tuple[int, str]]:
        """The places of volumes, by number, each with why it is left out."""
        for number, mount in enumerate(self.part.get("volumeMounts") or ()):
            yield number, _PRIVILEGED if self.is_privileged else self._fault_of_mount(mount)

    def _fault_of_mount(self, mount: Content) -> str:
        volume = self.volumes.get(mount["name"])
        kinds = [key for key in volume or {} if key != "name"]
        strange = [kind for kind in kinds if kind not in self.policy.volumes]
        if volume is None or not kinds:
            return "spec.volumes has no volume of that name"
        if strange:
            return f"a volume of kind {strange[0]}: {_ASK.format('volumes')}"
        if mount.get("mountPropagation") not in {None, "None"}:
            return "no mount is passed on between a pod and its node"
        path = str(mount["mountPath"])
        if ".." in path.split("/") or opened(normal_path(path), self.policy.volume_paths) is None:
            allowed = ", ".join(self.policy.volume_paths) or "nothing"
            return f"volumes appear below {allowed}: choose such a path, or {_ASK.format('volumePaths')}"
        return ""

    def metadata(self, name: str) -> dict[str, str]:
        """The labels or the annotations that are allowed; those of the role weigh more."""
        return {key: value for _, key, value in self._keys(name) if not self._fault_of_key(key)}

    def _keys(self, *names: str) -> Iterator[tuple[str, str, str]]:
        """Place, key and value of labels and annotations."""
        for name in names:
            places = [("spec", self.spec), (f"spec.{self.name}", self.part)] if name == "labels" else []
            metadata = [
                (f"{path}.podMetadata", part.get("podMetadata") or {})
                for path, part in (("spec", self.spec), (f"spec.{self.name}", self.part))
            ]
            for path, part in (*places, *metadata):
                for key, value in (part.get(name) or {}).items():
                    yield f"{path}.{name}", key, value

    def _fault_of_key(self, key: str) -> str:
        return "" if self.policy.takes_key(key) else _ASK.format("podMetadata")

    def resources(self) -> dict[str, dict[str, Any]]:
        """The requests and limits that are allowed."""
        found: dict[str, dict[str, Any]] = {}
        for path, amount, why in self._judged_resources():
            if not why:
                part, _, name = path.partition(".")
                found.setdefault(part, {})[name] = amount
        return found

    def _judged_resources(self) -> Iterator[tuple[str, Any, str]]:
        """Place, amount, and why it is left out."""
        asked = self.part.get("resources") or {}
        for part in ("requests", "limits"):
            for name, amount in (asked.get(part) or {}).items():
                yield f"{part}.{name}", amount, self._fault_of_amount(name, amount)
        if asked.get("claims"):
            yield "claims", None, "a pod of a dataset has no resource claims"

    def _fault_of_amount(self, name: str, amount: int | str) -> str:
        return fault_of_amount(name, amount, self.kind, self.policy)


def fault_of_amount(name: str, amount: int | str, kind: RoleKind, policy: Policy) -> str:
    """Why a pod may not ask for so much of a resource; empty when it may."""
    largest, value = policy.largest_pods.of(kind).get(name), f"largestPods.{kind.value}"
    if largest is None:
        return _ASK.format(value)
    asked, most = amount_of(amount), amount_of(largest)
    if asked is None or most is None or not 0 <= asked <= most:
        return f"more than {largest}: ask for less, or have the administrator raise policy.{value}"
    return ""
