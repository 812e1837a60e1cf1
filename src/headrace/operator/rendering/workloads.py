"""The workloads and Services of a dataset. Pods are replaced by the operator, one by one: `OnDelete`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from headrace.operator.rendering.naming import (
    MASTER_PORT,
    NODES_ANNOTATION,
    PLACES_ANNOTATION,
    SWEPT_FINALIZER,
    WORKER_PORT,
    Names,
)
from headrace.operator.rendering.pods import apart, on_nodes, pod_template
from headrace.operator.rendering.role_files import settings_file
from headrace.operator.rendering.surroundings import Surroundings
from headrace.plan.roles import Role, RoleKind

Content = dict[str, Any]


def master_set(role: Role, names: Names, surroundings: Surroundings) -> Content:
    """The StatefulSet of the master."""
    node = role.node or (surroundings.restore_node if surroundings.can_restore else "")
    affinity = on_nodes([node]) if node else None
    return _set(
        names.master,
        role,
        names,
        surroundings,
        {"replicas": 1, "affinity": affinity, "service": names.master},
    )


def worker_set(
    role: Role, nodes: list[str], replicas: int, names: Names, surroundings: Surroundings
) -> Content:
    """The StatefulSet of the workers, one on each of these nodes."""
    affinity = {**on_nodes(nodes), **apart(names)}
    given = {"replicas": replicas, "affinity": affinity, "service": names.worker}
    content = _set(names.worker, role, names, surroundings, given)
    content["spec"]["podManagementPolicy"] = "Parallel"
    noted = {NODES_ANNOTATION: json.dumps(sorted(nodes))}
    content["metadata"]["annotations"] |= noted
    # On each pod, too: one that waits for a node tells by it whether it waits for the right ones.
    content["spec"]["template"]["metadata"]["annotations"] |= noted
    return content


def mount_set(role: Role, nodes: list[str], names: Names, surroundings: Surroundings) -> Content:
    """The DaemonSet of the mounts, on these nodes."""
    content = _object("DaemonSet", names.mount, names, surroundings, RoleKind.MOUNT)
    content["metadata"]["annotations"] |= {NODES_ANNOTATION: json.dumps(sorted(nodes))}
    content["spec"] = {
        "selector": {"matchLabels": names.selector(RoleKind.MOUNT)},
        "updateStrategy": {"type": "OnDelete"},
        "template": pod_template(role, names, surroundings, on_nodes(nodes)),
    }
    return content


def master_service(names: Names, surroundings: Surroundings) -> Content:
    """The address of the master, which stays when its pod moves."""
    return _service(names.master, RoleKind.MASTER, MASTER_PORT, names, surroundings)


def worker_service(names: Names, surroundings: Surroundings) -> Content:
    """Names for the workers' pods. Members find each other by the master's view, not by these."""
    content = _service(names.worker, RoleKind.WORKER, WORKER_PORT, names, surroundings)
    content["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return content


def settings_map(
    roles: Mapping[RoleKind, Role],
    places: Mapping[str, list[str]],
    names: Names,
    surroundings: Surroundings,
) -> Content:
    """The settings files of the roles, which hold no secrets; and the places on nodes that are to be swept one day."""
    content = _object("ConfigMap", names.settings, names, surroundings)
    content["metadata"]["annotations"] |= {PLACES_ANNOTATION: json.dumps(places, sort_keys=True)}
    content["metadata"]["finalizers"] = [SWEPT_FINALIZER]
    content["data"] = {
        f"{kind.value}.yaml": settings_file(role, names, surroundings) for kind, role in roles.items()
    }
    return content


def secret(name: str, values: Mapping[str, str], names: Names, surroundings: Surroundings) -> Content:
    """A Secret of the dataset's own."""
    content = _object("Secret", name, names, surroundings)
    # Not as stringData: what was said in that is never taken away again.
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {**content, "type": "Opaque", "data": data}


def _set(
    name: str, role: Role, names: Names, surroundings: Surroundings, given: Mapping[str, Any]
) -> Content:
    content = _object("StatefulSet", name, names, surroundings, role.kind)
    content["spec"] = {
        "replicas": given["replicas"],
        "serviceName": given["service"],
        "selector": {"matchLabels": names.selector(role.kind)},
        "updateStrategy": {"type": "OnDelete"},
        "template": pod_template(role, names, surroundings, given["affinity"]),
    }
    return content


def _service(name: str, kind: RoleKind, port: int, names: Names, surroundings: Surroundings) -> Content:
    content = _object("Service", name, names, surroundings, kind)
    content["spec"] = {
        "selector": names.selector(kind),
        "ports": [{"name": "http" if kind is RoleKind.MASTER else "peers", "port": port, "targetPort": port}],
    }
    return content


def _object(
    kind: str, name: str, names: Names, surroundings: Surroundings, role: RoleKind | None = None
) -> Content:
    owners = [dict(surroundings.owner)] if surroundings.owner else []
    metadata = {
        "name": name,
        "namespace": names.namespace,
        "labels": names.labels(role),
        "annotations": names.annotations,
        "ownerReferences": owners,
    }
    version = "apps/v1" if kind.endswith("Set") else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
