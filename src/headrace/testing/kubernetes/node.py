"""A node: namespaces of its own on the cluster's switch, with containerd, kubelet and kube-proxy in them.

Its first process holds all together: when that is killed, the kernel ends everything that runs on the node.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.netns.commands import run_command
from headrace.netns.namespaces import enter_prefix
from headrace.netns.switch import DEVICE
from headrace.testing.kubernetes import running
from headrace.testing.kubernetes.cgroups import joining
from headrace.testing.kubernetes.image_store import (
    CONTAINERD_SOCKET,
    ImageStore,
    held_images,
    import_image,
    note_held,
)
from headrace.testing.kubernetes.images import image_identity
from headrace.testing.kubernetes.layout import Layout, Plan, node_name
from headrace.testing.kubernetes.node_files import write_node_files
from headrace.testing.kubernetes.programs import program

_SCRIPT = Path(__file__).with_name("node_root.sh")
_INIT = "init"
_START_S = 300.0
_KUBELET_PORT = 10250
_LISTENING = "0A"


class Node:
    """One node of a cluster, also of one that another process has made."""

    def __init__(self, layout: Layout, plan: Plan, number: int) -> None:
        self.name = node_name(number)
        self.number = number
        self.address = str(plan.addresses.node(number))
        self._layout = layout
        self._plan = plan
        self.folder = layout.node_folder(self.name)

    # --- its power and its cable ---

    def start(self) -> None:
        """Starts what of the node does not run. Its state before a reboot is there again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_node_files(self._layout, self._plan, self.number)
        ImageStore(self._layout).give(self.folder)
        if self._first_process() is None:
            self._start_first_process()
        for name, command in self._commands().items():
            if not self._is_running(name):
                self._start_program(name, command)
        self._wait(self._has_kubelet, f"has no kubelet: see {self._log_path('kubelet')}")

    def stop(self) -> None:
        """Ends everything on the node at once, as if its power was cut."""
        running.kill_all(self._layout.instance, self._role(""))

    def reboot(self) -> None:
        """Cuts the power and starts again: memory, processes and mounts are gone, disks are not."""
        self.stop()
        self.start()

    def cut(self) -> None:
        """Pulls the network cable."""
        self._set_link("down")

    def repair(self) -> None:
        """Puts the network cable back."""
        self._set_link("up")

    # --- what runs on it ---

    def kill(self, name: str, signal_number: int = signal.SIGKILL) -> None:
        """Ends `containerd`, `kubelet` or `kube-proxy` as a crash would; `start()` starts it again."""
        running.kill_program(self._layout.instance, self._role(name), name, signal_number)

    def command(self, *words: str) -> tuple[str, ...]:
        """A command as it has to be called here to run on the node."""
        return (*self._prefix(), *words)

    def run(self, *words: str) -> str:
        """The output of a command on the node; `CommandError` when it fails."""
        return run_command(*self.command(*words))

    def path(self, path: str) -> Path:
        """A file of the node as this machine sees it, while the node runs."""
        return Path(f"/proc/{self._require_first_process()}/root") / path.lstrip("/")

    def load_image(self, archive: Path) -> None:
        """Gives the node an image that `images.image_tar` has made. One that it has already costs nothing."""
        names, identity = image_identity(archive)
        held = held_images(self.folder)
        if all(held.get(name) == identity for name in names):
            return
        import_image(archive, self._prefix(), self.name)
        note_held(self.folder, held | dict.fromkeys(names, identity))

    # --- inside ---

    def _commands(self) -> dict[str, Sequence[str]]:
        files = self.folder
        return {
            "containerd": ("containerd", "--config", str(files / "containerd.toml")),
            "kubelet": (
                program("kubelet"),
                f"--config={files / 'kubelet.json'}",
                f"--kubeconfig={files / 'kubelet.kubeconfig'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
                "--v=1",
            ),
            "kube-proxy": (program("kube-proxy"), f"--config={files / 'kube-proxy.json'}", "--v=1"),
        }

    def _start_first_process(self) -> None:
        prefix = (
            *joining(self._layout.system_cgroup),
            *enter_prefix(self._layout.namespace(self.name)),
            *("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--propagation", "slave"),
        )
        command = ("sh", str(_SCRIPT), str(self._layout.folder), str(self.folder), self.name)
        log_path = self._log_path(_INIT)
        running.start(
            command,
            instance=self._layout.instance,
            role=self._role(_INIT),
            log_path=log_path,
            prefix=prefix,
        )
        self._wait(lambda: self._file_exists("/run/node-is-made"), f"has no file system: see {log_path}")

    def _start_program(self, name: str, command: Sequence[str]) -> None:
        running.start(
            command,
            instance=self._layout.instance,
            role=self._role(name),
            log_path=self._log_path(name),
            prefix=(*joining(self._layout.system_cgroup), *self._prefix()),
        )
        if name == "containerd":
            self._wait(lambda: self._file_exists(CONTAINERD_SOCKET), "has no containerd")

    def _has_kubelet(self) -> bool:
        """True once it serves. It ends where containerd has a socket and does not answer yet, and is started again as
        an init system would."""
        if not self._is_running("kubelet"):
            self._start_program("kubelet", self._commands()["kubelet"])
        return listens(self._require_first_process(), _KUBELET_PORT)

    def _prefix(self) -> tuple[str, ...]:
        target = str(self._require_first_process())
        return ("nsenter", "--target", target, "--mount", "--uts", "--net", "--pid", "--wd=/", "--")

    def _is_running(self, name: str) -> bool:
        return running.is_running(self._layout.instance, self._role(name), name)

    def _log_path(self, name: str) -> Path:
        return self._layout.logs / f"{self.name}-{name}.log"

    def _role(self, name: str) -> str:
        return f"{self.name}/{name}"

    def _first_process(self) -> int | None:
        return running.first_of_namespace(self._layout.instance, self._role(_INIT))

    def _require_first_process(self) -> int:
        pid = self._first_process()
        if pid is None:
            raise ProcessLookupError(f"{self.name} does not run")
        return pid

    def _file_exists(self, path: str) -> bool:
        pid = self._first_process()
        return pid is not None and Path(f"/proc/{pid}/root{path}").exists()

    def _wait(self, is_done: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + _START_S
        while not is_done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} {complaint}")
            time.sleep(0.05)

    def _set_link(self, state: str) -> None:
        """At the switch, as a cable is pulled: the node keeps its addresses and routes."""
        run_command("ip", "-n", self._layout.switch, "link", "set", "dev", self.name, state)


def listens(pid: int, port: int) -> bool:
    """True if something listens at `port` of TCP in the network of a process."""
    tables = (Path(f"/proc/{pid}/net/{table}").read_text() for table in ("tcp", "tcp6"))
    rows = (line.split() for table in tables for line in table.splitlines()[1:])
    return any(row[1].endswith(f":{port:04X}") and row[3] == _LISTENING for row in rows)


def make_routes(layout: Layout, plan: Plan, number: int) -> None:
    """Tells a node where the pods of the others are."""
    for other in range(1, plan.nodes + 1):
        if other != number:
            add_route(
                ("ip", "-n", layout.namespace(node_name(number))),
                str(plan.addresses.pods_of(other)),
                str(plan.addresses.node(other)),
                DEVICE,
            )


def add_route(prefix: Sequence[str], subnet: str, via: str, device: str) -> None:
    run_command(*prefix, "route", "replace", subnet, "via", via, "dev", device)
