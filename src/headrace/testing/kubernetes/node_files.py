"""The configuration of a node's containerd, kubelet, kube-proxy and pod network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.testing.kubernetes.image_store import CONTAINERD_SOCKET
from headrace.testing.kubernetes.kubeconfig import write_kubeconfig
from headrace.testing.kubernetes.layout import DOMAIN, Layout, Plan, node_name
from headrace.testing.kubernetes.programs import PLUGINS

PAUSE_IMAGE = "localhost/headrace-pause:1"

_CONTAINERD = """
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = [
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Root without CAP_SYS_RESOURCE cannot lower the score.
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/cni"
"""


def write_node_files(layout: Layout, plan: Plan, number: int) -> None:
    """Into the node's folder."""
    folder = layout.node_folder(node_name(number))
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    (folder / "containerd.toml").write_text(
        _CONTAINERD.format(folder=folder, socket=CONTAINERD_SOCKET, pause=PAUSE_IMAGE, plugins=PLUGINS)
    )
    _write(folder / "cni" / "10-pods.conflist", _pod_network(plan, number))
    write_kubeconfig(folder / "kubelet.kubeconfig", plan.addresses, layout.certificates, node_name(number))
    _write(folder / "kubelet.json", _kubelet(layout, plan, number))
    write_proxy_files(layout, plan, folder, node_name(number))


def write_proxy_files(layout: Layout, plan: Plan, folder: Path, node: str) -> None:
    """Of kube-proxy: `node` is the node that it asks for its addresses."""
    kubeconfig = folder / "kube-proxy.kubeconfig"
    write_kubeconfig(kubeconfig, plan.addresses, layout.certificates, "kube-proxy")
    _write(folder / "kube-proxy.json", _proxy(plan, kubeconfig, node))


def _pod_network(plan: Plan, number: int) -> dict[str, Any]:
    # A cable for each pod and no bridge: traffic of a pod to a service that ends at its neighbour is routed, so that
    # the answer comes back the same way.
    address = {"type": "host-local", "subnet": str(plan.addresses.pods_of(number))}
    address |= {"routes": [{"dst": "0.0.0.0/0"}]}  # type: ignore[dict-item]
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": address},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet(layout: Layout, plan: Plan, number: int) -> dict[str, Any]:
    certificates, name = layout.certificates, node_name(number)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(certificates / "authority.pem")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificates / f"{name}.pem"),
        "tlsPrivateKeyFile": str(certificates / f"{name}.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDomain": DOMAIN,
        "clusterDNS": [str(plan.addresses.name_service)],
        # The file of this machine names servers that pods cannot reach.
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.cgroup}/{name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        # Sooner than usual, so that tests of lost nodes need not wait for minutes.
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 16,
        # A full disk of this machine is not the cluster's business: it would drop its images, which no registry has.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def _proxy(plan: Plan, kubeconfig: Path, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": str(plan.addresses.pods),
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "oomScoreAdj": 0,
        # Limits of the kernel as a whole are not a namespace's to set.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    """JSON is YAML, too. A file that is as it should be is left alone: kube-proxy ends when its own is written."""
    text = json.dumps(content, indent=1)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
