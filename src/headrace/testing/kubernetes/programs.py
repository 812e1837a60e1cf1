"""The programs that a cluster is made of: where they are, and what is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from headrace.netns.namespaces import can_make_namespaces

VERSION = "v1.34.4"
"""Of Kubernetes, as tools/kubernetes/go.mod has it."""

BUILT = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)
"""Built by tools/install_kubernetes.sh."""

PLUGINS = Path("/usr/lib/cni")
"""Where Debian has the plugins for networks of pods."""

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INSTALLED = (
    "etcd",
    "containerd",
    "ctr",
    "runc",
    "conntrack",
    "iptables",
    "socat",
    "nsenter",
    "unshare",
    "cc",
)


def program_folder() -> Path:
    """The folder in which tools/install_kubernetes.sh puts what it builds."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "headrace" / "kubernetes" / VERSION


def program(name: str) -> str:
    """The path of a program that was built."""
    return str(program_folder() / name)


def lacking() -> str:
    """Why no cluster can run here, for `skipif`; empty when one can."""
    if not can_make_namespaces():
        return "a Kubernetes of one's own needs root"
    missing = [name for name in BUILT if not (program_folder() / name).exists()]
    if missing:
        return f"not built: {', '.join(missing)} (tools/install_kubernetes.sh builds them)"
    path = f"{os.environ.get('PATH', '')}:{SEARCH_PATH}"
    missing = [name for name in _INSTALLED if shutil.which(name, path=path) is None]
    missing += [] if (PLUGINS / "ptp").exists() else ["containernetworking-plugins"]
    return f"not installed: {', '.join(missing)} (tools/setup_system.sh installs them)" if missing else ""
