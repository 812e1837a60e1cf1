"""`headrace webhook` as processes of this machine, for a cluster that reaches it by an address."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from headrace.testing.processes import free_port, freeze
from headrace.webhook.certificate_keeper import SECRET

SERVICE = "headrace-webhook"

# As the chart gives them to the pods of the webhook.
CLUSTER_RULES = [
    {
        "apiGroups": ["data.fluid.io"],
        "resources": ["datasets", "alluxioruntimes", "jindoruntimes"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch"]},
]
RULES = [
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [SECRET],
        "verbs": ["get", "update"],
    },
]


def rights(name: str, namespace: str) -> list[dict[str, Any]]:
    """An account with just the rights that the webhook needs; `name` is that of its configuration, too."""
    rbac = "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", "name": SERVICE, "namespace": namespace}]
    own = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "resourceNames": [name],
        "verbs": ["get", "update"],
    }

    def made(kind: str, title: str, place: str | None, **rest: Any) -> dict[str, Any]:
        metadata = {"name": title} | ({"namespace": place} if place else {})
        return {"apiVersion": f"{rbac}/v1", "kind": kind, "metadata": metadata, **rest}

    def ref(kind: str, title: str) -> dict[str, str]:
        return {"apiGroup": rbac, "kind": kind, "name": title}

    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SERVICE, "namespace": namespace}},
        # As the chart brings it: empty.
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": namespace}},
        made("ClusterRole", name, None, rules=[*CLUSTER_RULES, own]),
        made("ClusterRoleBinding", name, None, roleRef=ref("ClusterRole", name), subjects=subjects),
        made("Role", SERVICE, namespace, rules=RULES),
        made("RoleBinding", SERVICE, namespace, roleRef=ref("Role", SERVICE), subjects=subjects),
    ]


def service(namespace: str, address: str, ports: list[int]) -> list[dict[str, Any]]:
    """A Service that leads to these ports of an address outside of the cluster."""
    port = {"name": "https", "port": 443, "protocol": "TCP"}
    slices = [
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{SERVICE}-{number}",
                "namespace": namespace,
                "labels": {"kubernetes.io/service-name": SERVICE},
            },
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": number, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        }
        for number in ports
    ]
    metadata = {"name": SERVICE, "namespace": namespace}
    return [{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}}, *slices]


def configuration(name: str, namespace: str, policy: str) -> dict[str, Any]:
    """What tells API servers of the webhook, for pods of namespaces with the label `webhook: NAME`."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "pods.headrace.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {"name": SERVICE, "namespace": namespace, "path": "/pods", "port": 443}
                },
                "failurePolicy": policy,
                "timeoutSeconds": 2,
                "sideEffects": "None",
                "reinvocationPolicy": "IfNeeded",
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"webhook": name}},
            }
        ],
    }


def declared_configuration(name: str, namespace: str) -> dict[str, Any]:
    """The same for objects that somebody declares there; in nobody's way, as in the chart."""
    made = configuration(name, namespace, "Ignore")
    (webhook,) = made["webhooks"]
    del webhook["reinvocationPolicy"]
    (rule,) = webhook["rules"]
    rule |= {"apiGroups": ["data.fluid.io"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"]}
    rule["resources"] = ["datasets", "alluxioruntimes", "jindoruntimes"]
    return {
        **made,
        "kind": "ValidatingWebhookConfiguration",
        "webhooks": [{**webhook, "name": "declared.headrace.io"}],
    }


def kubeconfig_of(token: str, path: Path, shown: dict[str, Any]) -> Path:
    """A kubeconfig for the server of another one, as `kubectl config view` shows that, and a token."""
    content = {**shown, "users": [{"name": shown["users"][0]["name"], "user": {"token": token}}]}
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path


class Replica:
    """One process of the webhook."""

    def __init__(self, kubeconfig: Path, address: str, name: str, namespace: str, log: Path) -> None:
        self.port, self.health_port = free_port(address), free_port(address)
        self.log = log
        self.address = address
        self._words = [
            *(sys.executable, "-m", "headrace.cli.main", "webhook", f"--listen={address}:{self.port}"),
            *(f"--health-port={self.health_port}", f"--service={SERVICE}.{namespace}"),
            *(f"--configuration={name}", f"--kubeconfig={kubeconfig}", "--log-format=text"),
            *("--certificate-grace=5s", "--policy={}"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, again if it was started before."""
        environment = {**os.environ, "KUBECONFIG": ""}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._words, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def freeze(self) -> None:
        """It stands still, and answers nothing."""
        assert self._process is not None
        freeze(self._process.pid)

    def thaw(self) -> None:
        """It goes on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ends it by a signal; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(number)
        return self._process.wait(30)

    def is_ready(self) -> bool:
        """True when it says so."""
        try:
            with urllib.request.urlopen(
                f"http://{self.address}:{self.health_port}/readyz", timeout=5
            ) as page:
                return bool(page.status == 200)
        except (urllib.error.URLError, OSError):
            return False
