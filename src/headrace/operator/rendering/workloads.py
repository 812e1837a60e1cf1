"""The workloads and Services of a dataset. Pods are replaced by the operator, one by one: `OnDelete`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from headrace.operator.rendering.naming import (
    COMPONENT_LABEL,
    HOME_LABEL,
    MASTER_PORT,
    NODES_ANNOTATION,
    PLACES,
    PLACES_ANNOTATION,
    QUOTAS_ANNOTATION,
    WORKER_PORT,
    Names,
)
from headrace.operator.rendering.render_context import RenderContext
from headrace.operator.rendering.role_files import settings_file
from headrace.operator.rendering.role_pods import apart, on_nodes, pod_template
from headrace.operator.settings import OperatorSettings
from headrace.plan.roles import Role, RoleKind

Content = dict[str, Any]


def master_set(role: Role, names: Names, render_context: RenderContext) -> Content:
    """The StatefulSet of the master."""
    node = role.node or (render_context.restore_node if render_context.can_restore else "")
    affinity = on_nodes([node]) if node else None
    return _set(
        names.master,
        role,
        names,
        render_context,
        {"replicas": 1, "affinity": affinity, "service": names.master},
    )


def worker_set(
    role: Role, nodes: list[str], replicas: int, names: Names, render_context: RenderContext
) -> Content:
    """The StatefulSet of the workers, one on each of these nodes."""
    affinity = {**on_nodes(nodes), **apart(names)}
    given = {"replicas": replicas, "affinity": affinity, "service": names.worker}
    content = _set(names.worker, role, names, render_context, given)
    content["spec"]["podManagementPolicy"] = "Parallel"
    noted = {NODES_ANNOTATION: json.dumps(sorted(nodes))}
    content["metadata"]["annotations"] |= noted
    # On each pod, too: one that waits for a node tells by it whether it waits for the right ones.
    content["spec"]["template"]["metadata"]["annotations"] |= noted
    return content


def mount_set(role: Role, nodes: list[str], names: Names, render_context: RenderContext) -> Content:
    """The DaemonSet of the mounts, on these nodes."""
    content = _object("DaemonSet", names.mount, names, render_context, RoleKind.MOUNT)
    content["metadata"]["annotations"] |= {NODES_ANNOTATION: json.dumps(sorted(nodes))}
    content["spec"] = {
        "selector": {"matchLabels": names.selector(RoleKind.MOUNT)},
        "updateStrategy": {"type": "OnDelete"},
        "template": pod_template(role, names, render_context, on_nodes(nodes)),
    }
    return content


def master_service(names: Names, render_context: RenderContext) -> Content:
    """The address of the master, which stays when its pod moves."""
    return _service(names.master, RoleKind.MASTER, MASTER_PORT, names, render_context)


def worker_service(names: Names, render_context: RenderContext) -> Content:
    """Names for the workers' pods. Members find each other by the master's view, not by these."""
    content = _service(names.worker, RoleKind.WORKER, WORKER_PORT, names, render_context)
    content["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return content


def places_map(
    places: Mapping[str, list[str]], quotas: Mapping[str, int], names: Names, settings: OperatorSettings
) -> Content:
    """The places on nodes that are to be swept one day, and what a worker may keep there. It lies where those who
    declare datasets do not write, since it leads a privileged pod and bounds others; and it outlives their namespaces.
    """
    noted = {PLACES_ANNOTATION: places, QUOTAS_ANNOTATION: quotas}
    metadata = {
        "name": names.places,
        "namespace": settings.namespace,
        "labels": {**names.labels(), COMPONENT_LABEL: PLACES, HOME_LABEL: names.namespace},
        "annotations": names.annotations
        | {key: json.dumps(value, sort_keys=True) for key, value in noted.items()},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def settings_map(roles: Mapping[RoleKind, Role], names: Names, render_context: RenderContext) -> Content:
    """The settings files of the roles, which hold no secrets. That of mounts is for pods of an earlier release: those
    of this one have it in themselves.
    """
    content = _object("ConfigMap", names.settings, names, render_context)
    content["data"] = {
        f"{kind.value}.yaml": settings_file(role, names, render_context) for kind, role in roles.items()
    }
    return content


def secret(name: str, values: Mapping[str, str], names: Names, render_context: RenderContext) -> Content:
    """A Secret of the dataset's own."""
    content = _object("Secret", name, names, render_context)
    # Not as stringData: what was said in that is never taken away again.
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {**content, "type": "Opaque", "data": data}


def _set(
    name: str, role: Role, names: Names, render_context: RenderContext, given: Mapping[str, Any]
) -> Content:
    content = _object("StatefulSet", name, names, render_context, role.kind)
    content["spec"] = {
        "replicas": given["replicas"],
        "serviceName": given["service"],
        "selector": {"matchLabels": names.selector(role.kind)},
        "updateStrategy": {"type": "OnDelete"},
        "template": pod_template(role, names, render_context, given["affinity"]),
    }
    return content


def _service(name: str, kind: RoleKind, port: int, names: Names, render_context: RenderContext) -> Content:
    content = _object("Service", name, names, render_context, kind)
    content["spec"] = {
        "selector": names.selector(kind),
        "ports": [{"name": "http" if kind is RoleKind.MASTER else "peers", "port": port, "targetPort": port}],
    }
    return content


def _object(
    kind: str, name: str, names: Names, render_context: RenderContext, role: RoleKind | None = None
) -> Content:
    owners = [dict(render_context.owner)] if render_context.owner else []
    metadata = {
        "name": name,
        "namespace": names.namespace,
        "labels": names.labels(role),
        "annotations": names.annotations,
        "ownerReferences": owners,
    }
    version = "apps/v1" if kind.endswith("Set") else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
