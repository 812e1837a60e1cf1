"""The next commands with a cluster that stands: those that install the chart of this checkout, as `up` prints them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from headrace.errors import MissingFileError
from headrace.testing.kubernetes.build_images import CHECKOUT, TAG
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.programs import program, program_folder

_NAMESPACE = "headrace-system"
_ROLLED_OUT = (
    "deployment/headrace-operator",
    "deployment/headrace-webhook",
    "deployment/headrace-jobs",
    "daemonset/headrace-csi",
)
_TOOLS = "bin"
"""The folder of kubectl and helm, in the state folder of a cluster."""


def next_commands(cluster: Cluster) -> tuple[str, str, str]:
    """The three commands, for a shell: where things are, the chart, and waiting for it."""
    image = " ".join(f"--set image.{name}.tag={TAG}" for name in ("operator", "engine"))
    place = f"--namespace {_NAMESPACE}"
    path, kubeconfig = shlex.quote(str(_tools(cluster))), shlex.quote(str(cluster.kubeconfig))
    return (
        f"export PATH={path}:$PATH KUBECONFIG={kubeconfig}",
        f"helm install headrace {shlex.quote(_chart())} {place} --create-namespace {image}",
        f"kubectl {place} rollout status {' '.join(_ROLLED_OUT)}",
    )


def explained(cluster: Cluster) -> str:
    """The commands with a word on what they rest on, and what comes after."""
    load = "python -m headrace.testing.kubernetes load"
    return "\n".join(
        (
            f"# The nodes hold the images of this checkout, with the tag {TAG}; after a change: {load}",
            *next_commands(cluster),
            f"# Then datasets: docs/datasets.md. Pods reach servers of this machine at {cluster.host_address}.",
        )
    )


def _tools(cluster: Cluster) -> Path:
    """A folder with kubectl and helm by their own names."""
    folder = cluster.folder / _TOOLS
    folder.mkdir(exist_ok=True)
    for name, there in (("kubectl", Path(program("kubectl"))), ("helm", _helm())):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(there)
    return folder


def _helm() -> Path:
    """As tools/install_helm.sh builds it."""
    lines = (CHECKOUT / "tools" / "install_helm.sh").read_text().splitlines()
    version = next(line.removeprefix("version=") for line in lines if line.startswith("version="))
    helm = program_folder().parents[1] / "tools" / f"helm-{version}"
    if not helm.exists():
        raise MissingFileError.of(f"helm {version} is not built", hint="tools/install_helm.sh")
    return helm


def _chart() -> str:
    chart = CHECKOUT / "deploy" / "chart"
    return os.path.relpath(chart) if Path.cwd() == CHECKOUT else str(chart)
