"""The control plane: etcd, API server, controllers, scheduler and the name server, in a network namespace of their own.

A kube-proxy stands beside them, so that the API server reaches webhooks by the addresses of their services.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.netns.namespaces import enter_prefix
from headrace.testing.kubernetes import running
from headrace.testing.kubernetes.cgroups import joining
from headrace.testing.kubernetes.kubeconfig import write_kubeconfig
from headrace.testing.kubernetes.layout import API_PORT, DOMAIN, Layout, Plan, node_name
from headrace.testing.kubernetes.node_files import write_proxy_files
from headrace.testing.kubernetes.programs import program

ROLE = "control"
_LIBRARY = Path(__file__).parents[3]
# Pods leave a lost node after half a minute, not five minutes.
_TOLERATION_S = 30
_GRACE_S = 16


class ControlPlane:
    """The parts above the nodes, also of a cluster that another process has made."""

    def __init__(self, layout: Layout, plan: Plan) -> None:
        self._layout = layout
        self._plan = plan
        self._folder = layout.folder / "control"

    def start(self) -> None:
        """Starts what does not run, but for the kube-proxy."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for user in ("controller-manager", "scheduler"):
            self._write_kubeconfig(user)
        self.start_ended()

    def start_ended(self) -> None:
        """Starts again what has ended since, as a kubelet would do it."""
        for name, command in self._commands().items():
            self._ensure(name, command)

    def start_proxy(self) -> None:
        """Needs the first node to be known: the kube-proxy here speaks for it."""
        write_proxy_files(self._layout, self._plan, self._folder, node_name(1))
        self._ensure("kube-proxy", (program("kube-proxy"), f"--config={self._folder / 'kube-proxy.json'}"))

    def kill(self, name: str) -> None:
        """Ends `etcd`, `kube-apiserver` or another at once, as a crash would; `start()` starts it again."""
        running.kill_program(
            self._layout.instance, f"{ROLE}/{name}", running.resolved_name(self._commands()[name][0])
        )

    def _ensure(self, name: str, command: Sequence[str]) -> None:
        role, instance = f"{ROLE}/{name}", self._layout.instance
        if running.is_running(instance, role, running.resolved_name(command[0])):
            return
        running.start(
            command,
            instance=instance,
            role=role,
            log_path=self._layout.logs / f"{name}.log",
            prefix=(*joining(self._layout.system_cgroup), *enter_prefix(self._layout.control)),
            variables={"PYTHONPATH": str(_LIBRARY)},
        )

    def _commands(self) -> Mapping[str, Sequence[str]]:
        return {
            "etcd": self._etcd(),
            "kube-apiserver": self._api_server(),
            "kube-controller-manager": self._controllers(),
            "kube-scheduler": (
                program("kube-scheduler"),
                f"--kubeconfig={self._kubeconfig('scheduler')}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
            ),
            "names": self._names(),
        }

    def _etcd(self) -> Sequence[str]:
        return (
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=default=http://127.0.0.1:2380",
            # Nothing of a test cluster outlives the machine's power.
            "--unsafe-no-fsync",
        )

    def _api_server(self) -> Sequence[str]:
        addresses, certificates = self._plan.addresses, self._layout.certificates
        return (
            program("kube-apiserver"),
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={addresses.control}",
            f"--secure-port={API_PORT}",
            f"--service-cluster-ip-range={addresses.services}",
            f"--tls-cert-file={certificates / 'apiserver.pem'}",
            f"--tls-private-key-file={certificates / 'apiserver.key'}",
            f"--client-ca-file={certificates / 'authority.pem'}",
            f"--kubelet-certificate-authority={certificates / 'authority.pem'}",
            f"--kubelet-client-certificate={certificates / 'admin.pem'}",
            f"--kubelet-client-key={certificates / 'admin.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
            f"--service-account-key-file={certificates / 'accounts.pub'}",
            f"--service-account-signing-key-file={certificates / 'accounts.key'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--default-not-ready-toleration-seconds={_TOLERATION_S}",
            f"--default-unreachable-toleration-seconds={_TOLERATION_S}",
        )

    def _controllers(self) -> Sequence[str]:
        certificates = self._layout.certificates
        return (
            program("kube-controller-manager"),
            f"--kubeconfig={self._kubeconfig('controller-manager')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={certificates / 'accounts.key'}",
            f"--root-ca-file={certificates / 'authority.pem'}",
            f"--cluster-signing-cert-file={certificates / 'authority.pem'}",
            f"--cluster-signing-key-file={certificates / 'authority.key'}",
            "--allocate-node-cidrs=false",
            f"--flex-volume-plugin-dir={self._folder / 'flex'}",
            f"--node-monitor-grace-period={_GRACE_S}s",
            "--node-monitor-period=2s",
        )

    def _names(self) -> Sequence[str]:
        certificates = self._layout.certificates
        return (
            *(sys.executable, "-m", "headrace.testing.kubernetes.names"),
            *("--listen", str(self._plan.addresses.control)),
            *("--certificate", str(certificates / "names")),
            *("--authority", str(certificates / "authority.pem")),
        )

    def _kubeconfig(self, user: str) -> Path:
        return self._folder / f"{user}.kubeconfig"

    def _write_kubeconfig(self, user: str) -> None:
        write_kubeconfig(self._kubeconfig(user), self._plan.addresses, self._layout.certificates, user)
