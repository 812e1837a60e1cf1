"""The pod of a role."""

from __future__ import annotations

from typing import Any

from headrace.operator.rendering import role_files
from headrace.operator.rendering.confining import confined
from headrace.operator.rendering.naming import (
    INDEX_LABEL,
    MASTER_PORT,
    METRICS_PORT,
    NOWHERE_LABEL,
    SETTINGS_ANNOTATION,
    TOKEN_ANNOTATION,
    VERSION_ANNOTATION,
    WORKER_PORT,
    Names,
)
from headrace.operator.rendering.own_user import own_folders, pod_security
from headrace.operator.rendering.render_context import PodWishes, RenderContext
from headrace.operator.rendering.restoring import restoring
from headrace.operator.rendering.role_volumes import own_volumes, volumes_of
from headrace.plan.roles import Role, RoleKind

Content = dict[str, Any]

GRACE_S = {RoleKind.MASTER: 15, RoleKind.WORKER: 30, RoleKind.MOUNT: 90}
"""What a pod has for its end. A mount waits for the driver of its node, which may end at the same time, and longer."""
_LEAST = {
    RoleKind.MASTER: {"cpu": "50m", "memory": "128Mi"},
    RoleKind.WORKER: {"cpu": "100m", "memory": "256Mi"},
    RoleKind.MOUNT: {"cpu": "50m", "memory": "128Mi"},
}


def pod_version(role: Role, render_context: RenderContext) -> str:
    """The version that a pod of this role notes of itself: the planner's, and this backend's part."""
    return f"{role.version}@{render_context.version(role.kind)}"


def pod_template(
    role: Role, names: Names, render_context: RenderContext, affinity: Content | None
) -> Content:
    """The template of the pods of this role."""
    wishes = render_context.wishes.get(role.kind, PodWishes())
    volumes, _ = volumes_of(role, names, render_context)
    restored, before = restoring(role, names, render_context, _security(role))
    pull = _each_once(
        *(str(each["name"]) for each in wishes.pull_secrets), *render_context.settings.engine.pull_secrets
    )
    spec: Content = {
        "containers": [_container(role, names, render_context, wishes)],
        "volumes": [*volumes, *restored, *wishes.volumes],
        "tolerations": list(wishes.tolerations),
        "terminationGracePeriodSeconds": GRACE_S[role.kind],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    if before := [*before, *own_folders(role, names, render_context)]:
        spec["initContainers"] = before
    if security := pod_security(role):
        spec["securityContext"] = security
    if affinity:
        spec["affinity"] = affinity
    if pull:
        spec["imagePullSecrets"] = pull
    priority = render_context.settings.policy.mount_priority_class
    if role.kind is RoleKind.MOUNT and priority:
        spec["priorityClassName"] = priority
    return {
        "metadata": {
            "labels": {**wishes.labels, **names.labels(role.kind)},
            "annotations": {
                **wishes.annotations,
                **names.annotations,
                **_settings(role, names, render_context),
                **({TOKEN_ANNOTATION: render_context.token} if render_context.token else {}),
                VERSION_ANNOTATION: pod_version(role, render_context),
            },
        },
        "spec": spec,
    }


def _settings(role: Role, names: Names, render_context: RenderContext) -> dict[str, str]:
    """The settings of a mount, which its pod has as a file."""
    if role.kind is not RoleKind.MOUNT:
        return {}
    return {SETTINGS_ANNOTATION: role_files.settings_file(role, names, render_context)}


def apart(names: Names) -> Content:
    """The rule that keeps the workers of one dataset on nodes of their own."""
    term = {
        "labelSelector": {"matchLabels": names.selector(RoleKind.WORKER)},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def on_nodes(nodes: list[str]) -> Content:
    """The rule that keeps pods on these nodes, by their names and not by labels that may be changed."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        for node in sorted(nodes)
    ]
    nowhere = [{"matchExpressions": [{"key": NOWHERE_LABEL, "operator": "Exists"}]}]
    required = {"nodeSelectorTerms": terms or nowhere}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _container(role: Role, names: Names, render_context: RenderContext, wishes: PodWishes) -> Content:
    kind = role.kind.value
    _, mounts = volumes_of(role, names, render_context)
    foreground = ["--foreground"] if role.kind is RoleKind.MOUNT else []
    engine = render_context.settings.engine
    return {
        "name": kind,
        "image": engine.name,
        "imagePullPolicy": engine.pull_policy,
        "args": [kind, "--config", f"{role_files.SETTINGS_FOLDER}/{kind}.yaml", *foreground],
        "env": _with_wishes(_environment(role, names, render_context), wishes),
        "ports": _ports(role.kind),
        "resources": dict(wishes.resources) or {"requests": _LEAST[role.kind]},
        "volumeMounts": [*mounts, *wishes.volume_mounts],
        "securityContext": _security(role),
        # So that the pod's own status says what the last words were.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **_probes(role.kind),
    }


def _each_once(*names: str) -> list[Content]:
    """References to objects. The API server refuses a list that names one twice."""
    return [{"name": name} for name in dict.fromkeys(names)]


def _with_wishes(own: list[Content], wishes: PodWishes) -> list[Content]:
    """Variables: those that a role needs, and what a person adds to them."""
    taken = {each["name"] for each in own}
    return [*own, *(dict(each) for each in wishes.environment if each["name"] not in taken)]


def _environment(role: Role, names: Names, render_context: RenderContext) -> list[Content]:
    state = role_files.state_folder(render_context, names)
    own = own_volumes(role)
    if role.kind is RoleKind.MASTER:
        return [own, _machine_credentials("MASTER", render_context)]
    node = _field("NODE_NAME", "spec.nodeName")
    if role.kind is RoleKind.MOUNT:
        return [node, own, _value("HEADRACE_MOUNT_NODE", "$(NODE_NAME)")]
    return [
        node,
        own,
        _machine_credentials("WORKER", render_context),
        _field("POD_IP", "status.podIP"),
        _field("POD_INDEX", f"metadata.labels['{INDEX_LABEL}']"),
        _value("HEADRACE_WORKER_ID", "worker-$(POD_INDEX)"),
        _value("HEADRACE_WORKER_NODE", "$(NODE_NAME)"),
        _value("HEADRACE_WORKER_ADVERTISE", "$(POD_IP)"),
        _value("HEADRACE_WORKER_STATE_DIRECTORY", f"{state}/worker-$(POD_INDEX)"),
        *_cache(role),
    ]


def _machine_credentials(role: str, render_context: RenderContext) -> Content:
    """As a variable: those of a role's own are never a person's to say."""
    allowed = "true" if render_context.settings.machine_credentials else "false"
    return _value(f"HEADRACE_{role}_MACHINE_CREDENTIALS", allowed)


def _cache(role: Role) -> list[Content]:
    """The cache as the pod has it, so that no ConfigMap says otherwise: more people may write those than pods."""
    words = [str(folder.word()) for folder in role.cache]
    # A variable parts words by white space. Only a folder within the pod has any in its name.
    if any(character.isspace() for word in words for character in word):
        return []
    return [_value("HEADRACE_WORKER_CACHE", " ".join(words).replace("$", "$$"))]


def _value(name: str, value: str) -> Content:
    return {"name": name, "value": value}


def _field(name: str, path: str) -> Content:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _ports(kind: RoleKind) -> list[Content]:
    own = {RoleKind.MASTER: ("api", MASTER_PORT), RoleKind.WORKER: ("peers", WORKER_PORT)}
    ports = [own[kind]] if kind in own else []
    ports += [("metrics", METRICS_PORT)] if kind is not RoleKind.MASTER else []
    return [{"name": name, "containerPort": port} for name, port in ports]


def _probes(kind: RoleKind) -> Content:
    port = MASTER_PORT if kind is RoleKind.MASTER else METRICS_PORT
    alive = {"httpGet": {"path": "/healthz", "port": port}}
    ready = {**alive, "periodSeconds": 5, "timeoutSeconds": 3, "failureThreshold": 3}
    # Nobody is killed for being slow: what waits for a storage system answers late, and a new process would wait, too.
    return {"readinessProbe": ready, "startupProbe": {**alive, "periodSeconds": 1, "failureThreshold": 300}}


def _security(role: Role) -> Content:
    if role.kind is RoleKind.MOUNT:
        # Mounting for others to see is for privileged containers alone: by the rules of Kubernetes.
        return {"privileged": True}
    user = {"runAsUser": role.run_as.uid, "runAsGroup": role.run_as.gid} if role.run_as else {}
    return {**user, **confined()}
