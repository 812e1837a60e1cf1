"""Images that a cluster's nodes hold from their beginning: imported once, and linked into the folder of each node.

An import reads, checks and unpacks half a gigabyte: on each node for itself, that takes longest of all that a cluster
needs. Once written, the files of an image stay unchanged, so that nodes can share them; only the databases are each
node's own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace.netns.commands import run_command
from headrace.testing.kubernetes import running
from headrace.testing.kubernetes.cgroups import joining
from headrace.testing.kubernetes.images import image_identity
from headrace.testing.kubernetes.layout import Layout

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_ROLE = "images/containerd"
_START_S = 300.0
_HELD = "images.json"
_ROOT = "containerd"
# Of containerd's folder: the bytes of images, their unpacked layers, and the databases of both.
_SHARED = (
    "io.containerd.content.v1.content",
    "io.containerd.metadata.v1.bolt",
    "io.containerd.snapshotter.v1.overlayfs",
)
_CONFIGURATION = """
version = 2
root = "{root}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]

[grpc]
address = "{socket}"
"""


class ImageStore:
    """The images of a cluster whose nodes have not begun."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folder = layout.folder / "images"

    def fill(self, archives: Iterable[Path]) -> None:
        """Imports images that `images.image_tar` has made. To be called once, before any node starts."""
        self._folder.mkdir(parents=True)
        prefix = self._start_containerd()
        held: dict[str, str] = {}
        for archive in archives:
            import_image(archive, prefix, "the cluster")
            names, identity = image_identity(archive)
            held |= dict.fromkeys(names, identity)
        running.kill_all(self._layout.instance, _ROLE)
        note_held(self._folder, held)

    def give(self, node_folder: Path) -> None:
        """Makes a node's containerd begin with what the store holds. One that has begun keeps what it has."""
        root = node_folder / _ROOT
        if root.exists() or not (self._folder / _HELD).exists():
            return
        root.mkdir()
        for name in _SHARED:
            run_command("cp", "--archive", "--link", str(self._folder / _ROOT / name), str(root / name))
        for linked in root.glob("*/*.db"):
            own = linked.with_name(f"{linked.name}.own")
            shutil.copyfile(linked, own)
            own.replace(linked)
        note_held(node_folder, held_images(self._folder))

    def _start_containerd(self) -> tuple[str, ...]:
        """What stands before a command that shall reach it. Its socket is in a /run of its own: paths of sockets are
        short, and those of folders may be long."""
        file = self._folder / "containerd.toml"
        file.write_text(_CONFIGURATION.format(root=self._folder / _ROOT, socket=CONTAINERD_SOCKET))
        instance = self._layout.instance
        running.start(
            ("containerd", "--config", str(file)),
            instance=instance,
            role=_ROLE,
            log_path=self._layout.logs / "images-containerd.log",
            prefix=(
                *joining(self._layout.system_cgroup),
                *("unshare", "--mount", "--propagation", "private"),
                *("sh", "-ec", 'mount -t tmpfs tmpfs /run; exec "$@"', "sh"),
            ),
        )
        pid = next(each.pid for each in running.processes_of(instance, _ROLE))
        self._wait_for(Path(f"/proc/{pid}/root{CONTAINERD_SOCKET}"))
        return ("nsenter", "--target", str(pid), "--mount", "--")

    def _wait_for(self, socket: Path) -> None:
        deadline = time.monotonic() + _START_S
        while not socket.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no containerd takes images: see {self._layout.logs}")
            time.sleep(0.05)


def import_image(archive: Path, prefix: Sequence[str], who: str) -> None:
    """Gives an image to the containerd that a command behind `prefix` reaches."""
    words = (*prefix, "ctr", "--address", CONTAINERD_SOCKET, "-n", "k8s.io", "images", "import", "-")
    with archive.open("rb") as content:
        done = subprocess.run(words, stdin=content, capture_output=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise RuntimeError(f"{who} does not take the image {archive}: {said}")


def held_images(folder: Path) -> dict[str, str]:
    """Of what was given to whom this folder is: the names of images, and what they stand for."""
    file = folder / _HELD
    return dict(json.loads(file.read_text())) if file.exists() else {}


def note_held(folder: Path, held: dict[str, str]) -> None:
    """The same, written down."""
    (folder / _HELD).write_text(json.dumps(held))
