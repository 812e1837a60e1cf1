"""What tests of the CSI driver share: a node's driver as a process, a client of it, and mounts that a keeper holds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from headrace.csi.specification import csi_pb2, csi_pb2_grpc
from headrace.engine.handles import Engine
from headrace.errors import HeadraceError
from headrace.roles.mountpoint.mount_table import mount_at, mounts
from headrace.testing.processes import freeze

from .harness import DEADLINE_S, HEADRACE, Shell

MULTI_WRITER = csi_pb2.VolumeCapability.AccessMode.MULTI_NODE_MULTI_WRITER
DATASET = "default/data"
# The program becomes process 1 of its own namespace, so its end is the end of all others.
POD = ("unshare", "--mount", "--propagation", "unchanged", "--pid", "--fork", "--kill-child", "--mount-proc")


def capability(mode: int = MULTI_WRITER, flags: tuple[str, ...] = ()) -> csi_pb2.VolumeCapability:
    return csi_pb2.VolumeCapability(
        mount=csi_pb2.VolumeCapability.MountVolume(mount_flags=flags),
        access_mode=csi_pb2.VolumeCapability.AccessMode(mode=mode),
    )


@dataclass
class Node:
    """A node: its folder, its driver, its mounts."""

    root: Path
    shell: Shell
    source: Path
    options: tuple[str, ...] = ()
    driver: subprocess.Popen[bytes] | None = None
    mount: subprocess.Popen[bytes] | None = None
    logs: list[Path] = field(default_factory=list)
    mode: str = "auto"
    in_pods: bool = False
    """Mounts run in mount and process namespaces of their own, as in a pod with propagation Bidirectional."""

    @property
    def folder(self) -> Path:
        return self.root / "node"

    @property
    def socket(self) -> Path:
        return self.root / "csi.sock"

    @property
    def mountpoint(self) -> Path:
        return self.folder / "mounts" / DATASET

    def start_driver(self) -> None:
        words = ["csi", "--endpoint", f"unix://{self.socket}", "--node", "node-1"]
        self.driver = self.start([*words, "--node-folder", str(self.folder), *self.options])
        until(self._answers, self.talk)

    def start_mount(self, *words: str, wait: bool = True) -> None:
        told = ["mount", str(self.source), str(self.mountpoint), "--cache", f"{self.root}/cache:1Gi"]
        told += [
            "--state-directory",
            str(self.root / "state"),
            "--allow-other",
            "--foreground",
            "--mode",
            self.mode,
        ]
        pod = POD if self.in_pods else ()
        self.mount = self.start([*told, "--keeper", str(self.folder / "keeper/keeper.sock"), *words], pod)
        if wait:
            self._await_mount()

    def start_member(self, file: Path) -> None:
        """The mount of a cluster, as its file says."""
        self.mount = self.start(["mount", "--config", str(file), "--foreground"])
        self._await_mount()

    def _await_mount(self) -> None:
        """Until its supervisor knows that it serves: one that it does not know of is killed when it shall end."""
        log = self.logs[-1]
        until(lambda: bool(self.entries()) and " files at " in log.read_text(), self.talk)

    def start(self, words: list[str], before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        log = self.root / f"log-{len(self.logs)}"
        self.logs.append(log)
        with log.open("wb") as file:
            return subprocess.Popen(
                [*before, HEADRACE, *words],
                env=self.shell.full_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        assert self.driver is not None
        assert self.driver.poll() is None, self.talk()
        if not self.socket.exists():
            return False
        with contextlib.suppress(grpc.RpcError), self.channel() as channel:
            stub = csi_pb2_grpc.IdentityStub(channel)
            return stub.Probe(csi_pb2.ProbeRequest(), timeout=20).ready.value
        return False

    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(f"unix:{self.socket}")

    def call(self, method: str, request: object, timeout_s: float = 60.0) -> object:
        with self.channel() as channel:
            return getattr(csi_pb2_grpc.NodeStub(channel), method)(request, timeout=timeout_s)

    def publish(self, target: Path, *, timeout_s: float = 60.0, **changes: object) -> None:
        words = {
            "volume_id": "data",
            "target_path": str(target),
            "volume_capability": capability(),
            "volume_context": {"dataset": DATASET, "subPath": ""},
        }
        self.call("NodePublishVolume", csi_pb2.NodePublishVolumeRequest(**{**words, **changes}), timeout_s)

    def unpublish(self, target: Path, volume_id: str = "data") -> None:
        request = csi_pb2.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=str(target))
        self.call("NodeUnpublishVolume", request)

    def stats(self, target: Path, volume_id: str = "data") -> csi_pb2.NodeGetVolumeStatsResponse:
        request = csi_pb2.NodeGetVolumeStatsRequest(volume_id=volume_id, volume_path=str(target))
        return self.call("NodeGetVolumeStats", request)  # type: ignore[return-value]

    def stats_when_well(self, target: Path) -> csi_pb2.NodeGetVolumeStatsResponse:
        """The same, once the mount has answered in time: a busy machine may take longer than a mount is given."""
        found: list[csi_pb2.NodeGetVolumeStatsResponse] = []

        def is_well() -> bool:
            found.append(self.stats(target))
            return not found[-1].volume_condition.abnormal

        until(is_well, lambda: f"{found[-1]}\n{self.talk()}")
        return found[-1]

    def entries(self) -> list[dict]:
        """The mount as the registry has it, once its process answers."""
        found = []
        for entry in self.shell.registry().entries():
            if entry.mountpoint == str(self.mountpoint) and not entry.is_restarting:
                with contextlib.suppress(HeadraceError), Engine.attach(Path(entry.state_directory)) as engine:
                    found.append({**entry.as_dict(), "engine": engine.status()})
        return found

    def is_kept(self) -> bool:
        """Whether the last supervisor has said that the keeper holds its mount."""
        return "holds what a successor needs" in self.logs[-1].read_text() or any(
            f"holds {self.mountpoint}" in log.read_text() for log in self.logs[-1:]
        )

    def kill_driver(self) -> None:
        assert self.driver is not None
        self.driver.kill()
        self.driver.wait()

    def kill_mount(self) -> None:
        """The end of a pod without a word: all its processes at once."""
        assert self.mount is not None
        for pid in tree_below(self.mount.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.mount.wait()

    def end_mount(self) -> int:
        """The end of a pod that is replaced."""
        assert self.mount is not None
        self.mount.terminate()
        return self.mount.wait(DEADLINE_S)

    def end_supervisor(self, number: int = signal.SIGTERM) -> int:
        """The same for the first process of a pod."""
        assert self.mount is not None
        (first,) = Path(f"/proc/{self.mount.pid}/task/{self.mount.pid}/children").read_text().split()
        os.kill(int(first), number)
        return self.mount.wait(DEADLINE_S)

    def talk(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in self.logs)

    def clear(self) -> None:
        for process in (self.mount, self.driver):
            if process is not None and process.poll() is None:
                for pid in tree_below(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()
        for entry in reversed(mounts()):
            if entry.path.startswith(f"{self.root}/"):
                subprocess.run(["umount", "-f", "-l", entry.path], check=False, capture_output=True)


def tree_below(pid: int) -> list[int]:
    """A process and all that it has started, stopped, the first one last, so that nobody is replaced in between.

    Those that have ended meanwhile are left out.
    """
    try:
        # A process that is about to start another does so before it stops.
        freeze(pid)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (ProcessLookupError, FileNotFoundError):
        return []
    return [each for child in children for each in tree_below(int(child))] + [pid]


def until(condition: object, talk: object = lambda: "", deadline_s: float = DEADLINE_S) -> None:
    end_s = time.monotonic() + deadline_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end_s, talk()  # type: ignore[operator]
        time.sleep(0.05)


def is_mounted(path: Path) -> bool:
    return mount_at(str(path)) is not None


@contextlib.contextmanager
def node_at(root: Path, shell: Shell, source: Path, *options: str) -> Iterator[Node]:
    """A node with a driver, in a folder whose mounts propagate, as a kubelet's do."""
    root.mkdir()
    for words in (["--bind", root, root], ["--make-shared", root]):
        subprocess.run(["mount", *map(str, words)], check=True)
    node = Node(root, shell, source, options)
    try:
        node.start_driver()
        yield node
    finally:
        node.clear()
        subprocess.run(["umount", "-l", str(root)], check=True)
