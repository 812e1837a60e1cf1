"""A test cluster leaves nothing on the machine: not when it is taken down, and not when its maker is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.local.processes.process_tags import tagged_processes
from headrace.netns.commands import run_command
from headrace.netns.namespaces import namespaces
from headrace.testing.kubernetes import registry
from headrace.testing.kubernetes.cluster import Cluster, take_down
from headrace.testing.kubernetes.layout import Layout
from headrace.testing.kubernetes.programs import lacking
from headrace.testing.kubernetes.tool_image import TOOL_IMAGE, tool_image

from .objects import pod

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())

MAKE = """
import os, sys, time
from pathlib import Path
from headrace.testing.kubernetes.cluster import Cluster
Cluster.up(Path(sys.argv[1]), nodes=1, lives_with=os.getpid())
print("up", flush=True)
time.sleep(600)
"""


def _traces(folder: Path) -> list[str]:
    """All that tells of a cluster on this machine."""
    layout = Layout(folder)
    links = [link["ifname"] for link in json.loads(run_command("ip", "-j", "link"))]
    everyone = [*Path("/proc").glob("[0-9]*/mountinfo")]
    return [
        *(name for name in namespaces() if layout.identity in name),
        *(name for name in links if layout.identity in name),
        # Walked, not globbed: another cluster's groups may go meanwhile.
        *(parent for parent, _, _ in os.walk("/sys/fs/cgroup") if layout.identity in parent),
        *(f"{each.role} {each.pid}" for each in tagged_processes(layout.instance)),
        *(str(path) for path in everyone if f"{folder}/" in _read(path)),
        *(str(path) for path in Path("/run/headrace-kubernetes").glob(f"{layout.identity}*")),
        *([str(folder)] if folder.exists() else []),
    ]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _wait(is_so, timeout_s=300):
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _start(folder):
    return subprocess.Popen([sys.executable, "-c", MAKE, str(folder)], stdout=subprocess.PIPE, text=True)


def test_a_cluster_that_is_taken_down_with_pods_and_mounts_leaves_nothing(tmp_path):
    folder = tmp_path / "state"
    cluster = Cluster.up(folder, nodes=1)
    assert len({trace.split("-")[0] for trace in _traces(folder)}) > 3, "the test sees what there is"
    cluster.load_image(tool_image(tmp_path / "tools.tar"))
    script = "mount -t tmpfs tmpfs /data; while :; do sleep 1; done"
    cluster.kubectl.apply(pod("stays", TOOL_IMAGE, script, privileged=True), namespace="default")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/stays", "--timeout=300s")
    cluster.down()
    assert _traces(folder) == []
    take_down(folder)


@pytest.mark.parametrize("moment", ["network", "etcd", "images/containerd", "node-1/containerd", "up"])
def test_what_a_killed_maker_leaves_is_taken_away_by_its_folder(tmp_path, moment):
    folder = tmp_path / "state"
    layout = Layout(folder)
    with _start(folder) as maker:
        if moment == "up":
            assert maker.stdout.readline() == "up\n"
        elif moment == "network":
            _wait(lambda: layout.switch in namespaces())
        else:
            _wait(lambda: any(each.role.endswith(moment) for each in tagged_processes(layout.instance)))
        maker.kill()
    assert _traces(folder)
    assert folder in registry.abandoned(), "and whoever makes the next one knows"
    take_down(folder)
    assert _traces(folder) == []
    assert folder not in registry.abandoned()


def test_a_cluster_whose_folder_somebody_has_emptied_stands_in_nobodys_way(tmp_path):
    folder = tmp_path / "state"
    with _start(folder) as maker:
        _wait(lambda: any(each.role.endswith("etcd") for each in tagged_processes(Layout(folder).instance)))
        maker.kill()
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    (folder / "left").mkdir()
    take_down(folder)
    assert _traces(folder) == []
    assert folder not in registry.abandoned()


def test_a_maker_that_is_interrupted_takes_away_what_it_began(tmp_path):
    folder = tmp_path / "state"
    with _start(folder) as maker:
        _wait(Layout(folder).kubeconfig.exists)
        os.kill(maker.pid, signal.SIGINT)
        assert maker.wait(300) != 0
    assert _traces(folder) == []


def test_a_folder_that_is_no_cluster_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(ValueError, match="is not a cluster's"):
        Cluster.up(tmp_path, nodes=1)
    with pytest.raises(ValueError, match="is not a cluster's"):
        take_down(tmp_path)
    assert (tmp_path / "precious").read_text() == "mine"
