"""The facts of a Kubernetes about Headrace: kinds, programs, nodes, and what the caller may do. Only questions are
asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.api.kinds import KINDS
from headrace.api.names import GROUP
from headrace.diagnosis.nodes import NodeFacts, node_of
from headrace.errors import HeadraceError, MissingFileError
from headrace.kube.client import KubeClient
from headrace.kube.discovery import served_versions
from headrace.kube.resources import RESOURCES

LABELS = {"app.kubernetes.io/name": "headrace"}
_COMPONENT = "app.kubernetes.io/component"
_VERSION = "app.kubernetes.io/version"
_DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"

WANTED_RIGHTS = tuple(
    (verb, RESOURCES[kind].group, RESOURCES[kind].plural)
    for kind in ("Dataset", "AlluxioRuntime", "DataLoad")
    for verb in ("get", "list", "create", "patch", "delete")
)
"""What somebody who works with datasets does."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """One program of the release: a Deployment, or the DaemonSet of the CSI driver."""

    component: str
    name: str
    version: str
    wanted: int
    ready: int


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts that were told. `unknown` holds what the caller may not ask, and why."""

    server: str
    kinds: Mapping[str, tuple[str, ...]]
    missing_kinds: tuple[str, ...]
    programs: tuple[ProgramFacts, ...] = ()
    has_driver: bool | None = None
    webhooks: Mapping[str, bool] = field(default_factory=dict)
    """The webhook configurations of Headrace, and whether each has an authority to believe."""
    nodes: tuple[NodeFacts, ...] = ()
    refused_rights: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


async def gather(client: KubeClient, namespace: str, driver: str) -> ClusterFacts:
    """The facts as they are now; rights are those in `namespace`. Raises what keeps it from any answer."""
    server = str((await client.read("/version", "read the version")).get("gitVersion", "unknown"))
    kinds = await served_versions(client, GROUP)
    wanted = {kind.name for kind in KINDS.values() if not kind.is_core}
    asking = _Asking(client)
    programs = [*await asking.programs("Deployment"), *await asking.programs("DaemonSet")]
    return ClusterFacts(
        server=server,
        kinds=kinds,
        missing_kinds=tuple(sorted(wanted - kinds.keys())),
        programs=tuple(programs),
        has_driver=await asking.has_driver(driver),
        webhooks=await asking.webhooks(),
        nodes=tuple(map(node_of, await asking.objects("Node"))),
        refused_rights=await asking.refused_rights(namespace),
        unknown=asking.unknown,
    )


class _Asking:
    """Questions of which each may be refused without keeping the others from being asked."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.unknown: dict[str, str] = {}

    async def objects(
        self, kind: str, labels: Mapping[str, str | None] | None = None
    ) -> list[dict[str, Any]]:
        try:
            return await self._client.list(kind, labels=labels)
        except HeadraceError as error:
            self.unknown[RESOURCES[kind].plural] = error.message
            return []

    async def programs(self, kind: str) -> list[ProgramFacts]:
        return [_program(found) for found in await self.objects(kind, LABELS)]

    async def webhooks(self) -> dict[str, bool]:
        return {
            str(found["metadata"]["name"]): _has_authority(found)
            for found in await self.objects("MutatingWebhookConfiguration", LABELS)
        }

    async def has_driver(self, driver: str) -> bool | None:
        try:
            await self._client.read(f"{_DRIVERS}/{driver}", f"read CSIDriver {driver}")
        except MissingFileError:
            return False
        except HeadraceError as error:
            self.unknown["csidrivers"] = error.message
            return None
        return True

    async def refused_rights(self, namespace: str) -> tuple[str, ...]:
        refused = []
        for verb, group, plural in WANTED_RIGHTS:
            try:
                if not await self._client.may(verb, group, plural, namespace):
                    refused.append(f"{verb} {plural}")
            except HeadraceError as error:
                self.unknown["rights"] = error.message
                break
        return tuple(refused)


def _program(found: Mapping[str, Any]) -> ProgramFacts:
    metadata, status = found["metadata"], found.get("status") or {}
    labels = metadata.get("labels") or {}
    is_daemon = found["kind"] == "DaemonSet"
    wanted = (
        status.get("desiredNumberScheduled", 0) if is_daemon else (found.get("spec") or {}).get("replicas", 1)
    )
    ready = status.get("numberReady" if is_daemon else "readyReplicas", 0)
    name = f"{metadata.get('namespace')}/{metadata['name']}"
    return ProgramFacts(labels.get(_COMPONENT, ""), name, labels.get(_VERSION, ""), int(wanted), int(ready))


def _has_authority(found: Mapping[str, Any]) -> bool:
    hooks: Sequence[Mapping[str, Any]] = found.get("webhooks") or ()
    return bool(hooks) and all((hook.get("clientConfig") or {}).get("caBundle") for hook in hooks)
