"""The helpful material of a Kubernetes: the release and the datasets of some namespaces, with events and logs; never a
Secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.api.kinds import KINDS
from headrace.diagnosis.bundle.writing import MOST_FILE_BYTES, Bundle
from headrace.diagnosis.cluster_facts import LABELS
from headrace.errors import HeadraceError
from headrace.kube.client import KubeClient
from headrace.kube.pod_logs import LogQuery, log_lines

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PROGRAMS = ("Deployment", "DaemonSet", "StatefulSet", "Service", "Pod", "Job")
_OF_CLUSTER = ("Node", "CustomResourceDefinition", "MutatingWebhookConfiguration", "StorageClass")
_LINES = 2000
_MOST_LOGS = 60


async def collect(bundle: Bundle, client: KubeClient, namespaces: Iterable[str]) -> None:
    """Adds everything that the caller may see; what may not be is named in the manifest."""
    for kind in _OF_CLUSTER:
        await _objects(bundle, client, kind, None, None if kind in ("Node", "StorageClass") else LABELS)
    pods: list[Mapping[str, Any]] = []
    for kind in _PROGRAMS:
        found = await _objects(bundle, client, kind, None, LABELS)
        pods += found if kind == "Pod" else []
    homes = {str(pod["metadata"].get("namespace")) for pod in pods}
    for namespace in sorted({*namespaces, *homes}):
        await _objects(bundle, client, "Event", namespace)
    for namespace in sorted(set(namespaces)):
        for kind in (kind.name for kind in KINDS.values() if kind.name not in _NEVER):
            await _objects(bundle, client, kind, namespace if KINDS[kind].namespaced else None)
    for pod in pods[:_MOST_LOGS]:
        await _logs(bundle, client, pod)
    if len(pods) > _MOST_LOGS:
        bundle.leave_out("logs", f"of {len(pods) - _MOST_LOGS} more pods")
    bundle.leave_out("Secrets, ConfigMaps", "they may hold credentials, and are never asked for")
    bundle.leave_out("pods of others", "only those of Headrace are taken")


_NEVER = ("Secret", "ConfigMap")


async def _objects(
    bundle: Bundle,
    client: KubeClient,
    kind: str,
    namespace: str | None,
    labels: Mapping[str, str | None] | None = None,
) -> list[dict[str, Any]]:
    name = "/".join(each for each in ("kubernetes", namespace, f"{kind}.json") if each)
    try:
        found = [_without_copies(each) for each in await client.list(kind, namespace, labels)]
    except HeadraceError as error:
        bundle.leave_out(name, error.message)
        return []
    if found:
        bundle.add_value(name, found, f"every {kind}{f' in {namespace}' if namespace else ''}")
    return found


def _without_copies(found: dict[str, Any]) -> dict[str, Any]:
    """The object without what repeats it, and would have to be redacted once more."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    if found["kind"] == "CustomResourceDefinition":
        versions = [each["name"] for each in found["spec"]["versions"]]
        return {
            "kind": found["kind"],
            "metadata": metadata,
            "versions": versions,
            "status": found.get("status"),
        }
    return {**found, "metadata": metadata}


async def _logs(bundle: Bundle, client: KubeClient, pod: Mapping[str, Any]) -> None:
    namespace, name = str(pod["metadata"].get("namespace")), str(pod["metadata"]["name"])
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    restarted = {each["name"] for each in statuses if each.get("restartCount")}
    for container in (str(each["name"]) for each in pod["spec"]["containers"]):
        for previous in (False, True) if container in restarted else (False,):
            file = f"logs/{namespace}/{name}/{container}{'-previous' if previous else ''}.txt"
            query = LogQuery(container, tail=_LINES, timestamps=True, previous=previous)
            try:
                text = await _read(client, namespace, name, query)
            except HeadraceError as error:
                bundle.leave_out(file, error.message)
                continue
            bundle.add_text(file, text, f"the last {_LINES:,} lines")


async def _read(client: KubeClient, namespace: str, pod: str, query: LogQuery) -> str:
    lines, size = [], 0
    async for line in log_lines(client, namespace, pod, query):
        lines.append(line)
        size += len(line)
        if size > 4 * MOST_FILE_BYTES:
            break
    return b"".join(lines).decode("utf-8", "replace")
