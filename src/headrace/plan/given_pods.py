"""Pods that people describe themselves: how far one may go that the operator creates in their name.

The operator may create any pod in any namespace; who declares a DataProcess may not. The checked rules are those that
Kubernetes calls "baseline", and the identity of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.plan.policy import Policy

Content = Mapping[str, Any]

_OF_NODES = ("hostNetwork", "hostPID", "hostIPC")
_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
    *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
    *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}
_DEFAULT_ACCOUNT = "default"


def pod_faults(pod: Content, policy: Policy) -> list[str]:
    """The demands of a pod's spec beyond the policy, each as its field and its value."""
    if policy.process_pods == "Any":
        return []
    return [*_of_pod(pod), *_of_volumes(pod), *_of_containers(pod)]


def account_fault(account: str | None, pod: Content, policy: Policy) -> str:
    """Why the pod may not have the account that it asks for; empty when it may."""
    named = (account, pod.get("serviceAccountName"), pod.get("serviceAccount"))
    asked = {str(each) for each in named if each}
    strange = sorted(asked - {_DEFAULT_ACCOUNT, *policy.service_accounts})
    return f"serviceAccountName {strange[0]}" if strange else ""


def key_faults(labels: Mapping[str, str], annotations: Mapping[str, str], policy: Policy) -> list[str]:
    """Keys of labels and annotations whose domains the policy does not name."""
    return [f"podMetadata key {key}" for key in (*labels, *annotations) if not policy.takes_key(key)]


def taint_faults(tolerations: Any, policy: Policy) -> list[str]:
    """Tolerations of taints whose keys the policy does not name."""
    keys = [each.get("key") for each in _items(tolerations)]
    return [
        f"a toleration of {f'taint {key}' if key else 'all taints'} (policy.tolerations)"
        for key in keys
        if not policy.takes_taint(key)
    ]


def _of_pod(pod: Content) -> Iterator[str]:
    for name in _OF_NODES:
        if pod.get(name):
            yield name
    if pod.get("nodeName"):
        yield "nodeName (nodeSelector does what it does, and keeps off nodes with taints)"
    if str(pod.get("priorityClassName") or "").startswith("system-"):
        yield f"priorityClassName {pod['priorityClassName']}"
    security = _mapping(pod.get("securityContext"))
    yield from _of_security(security, "securityContext")
    for each in _items(security.get("sysctls")):
        if str(each.get("name")) not in _SYSCTLS:
            yield f"sysctl {each.get('name')}"


def _of_volumes(pod: Content) -> Iterator[str]:
    for volume in _items(pod.get("volumes")):
        if "hostPath" in volume:
            yield f"volume {volume.get('name')} of kind hostPath"


def _of_containers(pod: Content) -> Iterator[str]:
    for part in _CONTAINERS:
        for container in _items(pod.get(part)):
            name = f"{part} {container.get('name')}"
            security = _mapping(container.get("securityContext"))
            yield from _of_security(security, f"{name}: securityContext")
            if security.get("privileged"):
                yield f"{name}: privileged"
            if str(security.get("procMount") or "Default") != "Default":
                yield f"{name}: procMount"
            added = _mapping(security.get("capabilities")).get("add") or ()
            added = map(str, added if isinstance(added, list) else [added])
            yield from (f"{name}: capability {each}" for each in added if each not in _CAPABILITIES)
            if any(each.get("hostPort") for each in _items(container.get("ports"))):
                yield f"{name}: hostPort"


def _of_security(security: Content, name: str) -> Iterator[str]:
    for profile in ("seccompProfile", "appArmorProfile"):
        if _mapping(security.get(profile)).get("type") == "Unconfined":
            yield f"{name}.{profile} Unconfined"
    options = _mapping(security.get("seLinuxOptions"))
    if options.get("user") or options.get("role") or str(options.get("type") or "") not in _SELINUX_TYPES:
        yield f"{name}.seLinuxOptions"
    if _mapping(security.get("windowsOptions")).get("hostProcess"):
        yield f"{name}.windowsOptions.hostProcess"


def _mapping(value: Any) -> Content:
    """A part of a pod as it was written, which may be anything: the API server refuses what is no pod."""
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> Iterable[Content]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []
