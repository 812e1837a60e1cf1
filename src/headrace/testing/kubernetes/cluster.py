"""A whole cluster: made, found again by its state folder, and taken away without a trace."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from headrace.netns.commands import run_command
from headrace.netns.namespaces import namespaces, remove_namespace
from headrace.netns.switch import unplug_host
from headrace.testing.kubernetes import registry, running
from headrace.testing.kubernetes.certificates import Authority, make_signing_key
from headrace.testing.kubernetes.cgroups import end_cgroup, make_cgroup
from headrace.testing.kubernetes.control_plane import ControlPlane
from headrace.testing.kubernetes.image_store import ImageStore
from headrace.testing.kubernetes.kubeconfig import write_kubeconfig
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.layout import (
    DOMAIN,
    NODES,
    Layout,
    Plan,
    claim,
    is_claimed,
    read_plan,
    write_plan,
)
from headrace.testing.kubernetes.network import plug_machines, take_addresses
from headrace.testing.kubernetes.node import Node
from headrace.testing.kubernetes.node_files import PAUSE_IMAGE
from headrace.testing.kubernetes.outside import OutsideLink
from headrace.testing.kubernetes.pause import pause_image
from headrace.testing.kubernetes.programs import lacking

_READY_S = 600.0
_LOG_TAIL_BYTES, _LOG_LINES, _LOG_WIDTH = 8000, 12, 240
# The node's own overlays cannot hold a state folder that lies on them.
_NODE_OWN = ("/proc", "/sys", "/dev", "/run")


class Cluster:
    """A running cluster; `Cluster.up` makes one, `Cluster.open` finds one."""

    def __init__(self, layout: Layout, plan: Plan) -> None:
        self._layout = layout
        self._plan = plan
        self.folder = layout.folder
        self.kubeconfig = layout.kubeconfig
        self.host_address = str(plan.addresses.host)
        """This machine, as nodes and pods reach it."""
        self.kubectl = Kubectl(layout.kubeconfig)
        self.control_plane = ControlPlane(layout, plan)
        self.nodes = tuple(Node(layout, plan, number) for number in range(1, plan.nodes + 1))

    @classmethod
    def up(
        cls, folder: Path, *, nodes: int = 2, images: Iterable[Path] = (), lives_with: int | None = None
    ) -> Self:
        """A cluster that is ready. Earlier content of a cluster's folder is taken away first.

        All nodes hold `images`, archives of `images.image_tar`, which costs far less than to load them later.

        With `lives_with`, a process's number, whoever makes the next cluster takes this one away if that is gone.
        """
        layout = Layout(folder.resolve())
        _refuse_places(layout.folder)
        if reason := lacking():
            raise RuntimeError(f"no Kubernetes can be made here: {reason}")
        for left in registry.abandoned():
            with registry.sole_remover(Layout(left)) as is_left:
                if is_left:
                    take_down(left)
        take_down(layout.folder)
        registry.enter(layout, lives_with)
        claim(layout)
        try:
            cluster = cls(layout, take_addresses(layout, nodes))
            cluster._make(images)
        except BaseException as error:
            error.add_note(_log_tails(layout))
            take_down(layout.folder)
            raise
        return cluster

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """The cluster of a folder; `None` where none is."""
        layout = Layout(folder.resolve())
        plan = read_plan(layout)
        return cls(layout, plan) if plan else None

    def down(self) -> None:
        """Takes everything of the cluster away, its folder, too."""
        take_down(self.folder)

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def plug_outside(self) -> OutsideLink:
        """A machine on the nodes' network that is none of them; the cluster has room for one."""
        return OutsideLink(self._layout, self._plan)

    def load_image(self, archive: Path) -> None:
        """Gives all nodes an image that `images.image_tar` has made."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.load_image(archive), self.nodes))

    def log_tails(self) -> str:
        """The last lines of every process of the cluster, for reports of failures."""
        return _log_tails(self._layout)

    def _make(self, images: Iterable[Path]) -> None:
        layout = self._layout
        layout.logs.mkdir(parents=True, exist_ok=True)
        make_cgroup(layout.system_cgroup)
        plug_machines(layout, self._plan)
        write_plan(layout, self._plan)
        self._make_certificates()
        with ThreadPoolExecutor() as pool:
            filled = pool.submit(self._fill_store, images)
            self.control_plane.start()
            filled.result()
            list(pool.map(self._make_node, self.nodes))
        self._make_name_service()
        self._await_ready()
        self.control_plane.start_proxy()

    def _fill_store(self, images: Iterable[Path]) -> None:
        ImageStore(self._layout).fill((pause_image(self.folder / "pause.tar"), *images))

    def _make_node(self, node: Node) -> None:
        make_cgroup(f"{self._layout.cgroup}/{node.name}")
        node.start()

    def _make_certificates(self) -> None:
        layout, addresses = self._layout, self._plan.addresses
        authority = Authority(layout.certificates)
        services = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
        authority.issue(
            "apiserver",
            "kube-apiserver",
            addresses=(addresses.control, addresses.kubernetes_service),
            hosts=(*services, f"kubernetes.default.svc.{DOMAIN}"),
        )
        authority.issue("admin", "admin", group="system:masters")
        authority.issue("names", "headrace-test-names", group="system:masters")
        for user in ("controller-manager", "scheduler", "proxy"):
            authority.issue(user if user != "proxy" else "kube-proxy", f"system:kube-{user}")
        for node in self.nodes:
            address = addresses.node(node.number)
            user = f"system:node:{node.name}"
            authority.issue(node.name, user, group="system:nodes", addresses=(address,), hosts=(node.name,))
        make_signing_key(layout.certificates, "accounts")
        write_kubeconfig(layout.kubeconfig, addresses, layout.certificates, "admin")

    def _make_name_service(self) -> None:
        self.kubectl.wait(self._has_api, "the API", timeout_s=_READY_S)
        self.kubectl.apply(*name_service(self._plan))

    def _await_ready(self) -> None:
        self.kubectl.wait(self._nodes_are_ready, "all nodes ready", timeout_s=_READY_S)
        self.kubectl.wait(self._has_default_account, "the default account", timeout_s=_READY_S)
        probes = [_probe(node.name) for node in self.nodes]
        self.kubectl.apply(*probes)
        self.kubectl.wait(lambda: self._run(probes), "a pod on each node", timeout_s=_READY_S)
        self.kubectl("delete", "pod", "--now", *(probe["metadata"]["name"] for probe in probes))

    def _start_ended(self) -> None:
        """Each of them gives up when what it needs is not there within some seconds, as on a machine that is busy."""
        self.control_plane.start_ended()
        for node in self.nodes:
            node.start()

    def _has_api(self) -> bool:
        self._start_ended()
        return bool(self.kubectl("get", "namespace", "kube-system"))

    def _has_default_account(self) -> bool:
        self._start_ended()
        return bool(self.kubectl("get", "serviceaccount", "default", "--namespace", "default"))

    def _nodes_are_ready(self) -> bool:
        self._start_ended()
        ready = [each for each in self.kubectl.get("nodes")["items"] if _condition(each, "Ready")]
        return len(ready) == len(self.nodes)

    def _run(self, pods: Iterable[dict[str, Any]]) -> bool:
        names = [pod["metadata"]["name"] for pod in pods]
        phases = self.kubectl("get", "pods", *names, "-o", "jsonpath={.items[*].status.phase}{.status.phase}")
        return phases.split() == ["Running"] * len(names)


def take_down(folder: Path) -> None:
    """Takes everything away that belongs to the cluster of a folder, whoever made it. A part that is gone is no
    error."""
    layout = Layout(folder.resolve())
    _refuse_foreign(layout)
    running.kill_all(layout.instance)
    end_cgroup(layout.cgroup)
    for name in namespaces():
        if name.startswith(layout.namespaces_prefix):
            remove_namespace(name)
    unplug_host(layout.device)
    _remove_folder(layout.folder)
    registry.leave(layout)


def _log_tails(layout: Layout) -> str:
    parts = []
    for path in sorted(layout.logs.glob("*.log")):
        tail = path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").splitlines()[-_LOG_LINES:]
        parts += [f"--- {path.name}", *(line[:_LOG_WIDTH] for line in tail)]
    return "\n".join(parts)


def name_service(plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """The service of the name server, which is no pod."""
    name = {"name": "kube-dns", "namespace": "kube-system"}
    port = {"name": "dns", "port": 53, "protocol": "UDP"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": name,
        "spec": {"clusterIP": str(plan.addresses.name_service), "ports": [port]},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**name, "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "ports": [port],
        "endpoints": [{"addresses": [str(plan.addresses.control)], "conditions": {"ready": True}}],
    }
    return service, endpoints


def _probe(node: str) -> dict[str, Any]:
    container = {"name": "pause", "image": PAUSE_IMAGE, "imagePullPolicy": "Never"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"headrace-probe-{node}", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
    }


def _condition(shown: dict[str, Any], kind: str) -> bool:
    conditions = shown.get("status", {}).get("conditions", ())
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _refuse_places(folder: Path) -> None:
    if any(folder.is_relative_to(place) for place in _NODE_OWN) or folder == Path("/"):
        raise ValueError(f"{folder} cannot hold a cluster: choose a folder on a disk")


def _refuse_foreign(layout: Layout) -> None:
    """A folder that somebody named by mistake is not removed with all that it holds."""
    if registry.is_entered(layout) or is_claimed(layout):
        return
    if layout.folder.exists() and any(layout.folder.iterdir()):
        raise ValueError(f"{layout.folder} is not a cluster's: choose an empty folder or a new one")


def _remove_folder(folder: Path) -> None:
    """Never through a mount: what is mounted below belongs to somebody else."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    foreign = [mount for mount in mounts if Path(mount).is_relative_to(folder)]
    if foreign:
        raise RuntimeError(f"{folder} is not removed: mounted below it are {', '.join(foreign)}")
    if not folder.exists():
        return
    # What says that the folder is a cluster's goes last, so that a removal can be cut short. Most of it is images: each
    # node's tens of thousands of files take a program of their own, which on a busy machine gets its share of it.
    inside = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    nodes = [path for parent in inside if parent.name == NODES for path in parent.iterdir()]
    with ThreadPoolExecutor() as pool:
        list(pool.map(_remove_tree, nodes))
    for path in (*inside, folder):
        _remove_tree(path)


def _remove_tree(path: Path) -> None:
    run_command("rm", "--recursive", "--force", "--one-file-system", "--", str(path))
