"""The bed itself, with ordinary processes: what the tests of the cluster stand on must be true without the cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.netns.namespaces import can_make_namespaces
from headrace.testing.buckets import put_object
from headrace.testing.cluster import Capability, UnsupportedError, open_bed
from headrace.testing.cluster.folders import mount_small_disk, mountpoints_below
from headrace.testing.cluster.loopback_bed import LoopbackBed
from headrace.testing.cluster.memory import places_that_hold
from headrace.testing.cluster.node import ServerPlace
from headrace.testing.counting_proxy import FetchLog
from headrace.testing.s3_client import S3Client
from headrace.testing.s3_server import S3Server

MEBIBYTE = 1 << 20
PORT = 8000
FETCH = (
    "import sys, urllib.request\n"
    "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
    "print(len(opener.open(sys.argv[1], timeout=float(sys.argv[2])).read()))\n"
)
needs_root = pytest.mark.skipif(not can_make_namespaces(), reason="links of their own need root")


@pytest.fixture
def bed(tmp_path):
    with open_bed(2, base=tmp_path) as opened:
        yield opened


def serve_files(node, content: bytes):
    """Python's web server on a node, with one file."""
    (node.state_folder / "file").write_bytes(content)
    words = [sys.executable, "-m", "http.server", str(PORT), "--bind", node.address]
    process = node.run([*words, "--directory", node.state_folder], name="web")
    process.wait_until(lambda: fetch(node, node, timeout_s=1) is not None)
    return process


def fetch(reader, server, *, timeout_s: float = 60) -> int | None:
    """How many bytes one node gets from another; None when nothing came in time."""
    url = f"http://{server.address}:{PORT}/file"
    done = reader.call([sys.executable, "-c", FETCH, url, str(timeout_s)])
    return int(done.stdout) if done.returncode == 0 else None


def test_nodes_reach_each_other_and_their_output_is_kept(bed) -> None:
    first, second = bed.nodes
    serve_files(second, b"x" * 1000)
    assert fetch(first, second) == 1000
    assert "GET /file" in (second.log_folder / "web.log").read_text()
    assert "GET /file" in bed.log_tails()


@needs_root
def test_a_cut_link_is_silence_until_it_is_whole_again(bed) -> None:
    first, second = bed.nodes
    serve_files(second, b"x" * 1000)
    second.link_down()
    assert fetch(first, second, timeout_s=0.5) is None
    assert fetch(second, second) == 1000, "a node without a cable still reaches itself"
    second.link_up()
    assert fetch(first, second) == 1000


@needs_root
def test_a_link_is_limited_in_each_direction_and_counted(bed) -> None:
    first, second = bed.nodes
    content = os.urandom(4 * MEBIBYTE)
    serve_files(second, content)
    # Counted behind the limit: what it throws away is sent again.
    for limit, counted in (
        (lambda: second.set_rate(80_000_000), lambda: second.link_bytes().sent),
        (lambda: first.set_rate(None, received_bits_per_s=80_000_000), lambda: first.link_bytes().received),
    ):
        limit()
        before, start = counted(), time.monotonic()
        assert fetch(first, second) == len(content)
        # 4 MiB at 10 MB/s take 0.42 s, less what the bucket holds at first.
        assert time.monotonic() - start > 0.35
        assert len(content) < counted() - before < len(content) * 1.05
        second.set_rate(None)


@needs_root
def test_a_frozen_process_keeps_its_connections_and_goes_on_when_thawed(bed) -> None:
    first, second = bed.nodes
    process = serve_files(second, b"x")
    second.freeze(process)
    assert fetch(first, second, timeout_s=0.5) is None
    second.thaw(process)
    assert fetch(first, second) == 1
    second.kill(process)
    assert not process.is_running()


def test_two_beds_stand_side_by_side(bed, tmp_path) -> None:
    serve_files(bed.nodes[0], b"x")
    with open_bed(1, base=tmp_path) as other:
        serve_files(other.nodes[0], b"yy")
        assert fetch(bed.nodes[1], bed.nodes[0]) == 1
        if Capability.LINKS in bed.capabilities:
            assert fetch(bed.nodes[1], other.nodes[0], timeout_s=0.5) is None
    assert fetch(bed.nodes[1], bed.nodes[0]) == 1


def test_nodes_join_later(bed) -> None:
    (joined,) = bed.add_nodes(1)
    assert joined.name == "node-2"
    serve_files(joined, b"x" * 10)
    assert fetch(bed.nodes[0], joined) == 10


def test_the_storage_node_counts_the_bytes_of_objects_and_nothing_else(bed, tmp_path) -> None:
    content, log = os.urandom(300_000), FetchLog(bed.storage.folder / "fetches")
    place = ServerPlace(bed.storage, log=log)
    with S3Server(tmp_path / "buckets", state=bed.storage.state_folder, link=place) as server:
        put_object(server.bucket_folder("data"), "folder/file", content)
        client: S3Client = server.client()
        assert [one.key for one in client.list_objects("data")] == ["folder/file"]
        assert client.request("HEAD", "/data/folder/file").headers["content-length"] == "300000"
        assert log.object_bytes() == 0
        assert client.get("data", "folder/file") == content
        part = client.request("GET", "/data/folder/file", headers={"Range": "bytes=1000-1999"})
        assert part.body == content[1000:2000]
    # It is noted after the last byte was sent.
    assert wait_for(lambda: len(log.fetches()) == 2)
    assert log.object_bytes() == 301_000
    assert [(one.first, one.size_bytes) for one in log.fetches()] == [(0, 300_000), (1000, 1000)]
    assert {one.path for one in log.fetches()} == {"/data/folder/file"}


@needs_root
def test_what_a_killed_process_left_behind_goes_with_the_next_bed(tmp_path) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from headrace.testing.cluster import open_bed\n"
        "from headrace.testing.cluster.folders import mount_small_disk\n"
        "bed = open_bed(2, base=Path(sys.argv[1]))\n"
        "mount_small_disk(bed.nodes[0].cache_folder, 1 << 20)\n"
        # A grandchild in a session of its own: nothing ends it but the search of its namespace.
        "sleeper = bed.nodes[1].run(['sh', '-c', 'setsid sleep 300 & echo $!; wait'], name='sleeper')\n"
        "sleeper.wait_until(lambda: sleeper.log_path.read_text().endswith('\\n'))\n"
        "print(bed.folder, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        folder = Path(parent.stdout.readline().strip())
        # Before it dies: what nobody owns any more, any other bed may clear away.
        assert mountpoints_below(folder)
        assert folder.name in namespaces_now()
        parent.send_signal(signal.SIGKILL)
    sleeper = (folder / "node-1" / "logs" / "sleeper.log").read_text().strip()
    open_bed(0, base=tmp_path).close()
    assert not folder.exists()
    assert not mountpoints_below(folder)
    assert folder.name not in namespaces_now()
    assert wait_until_gone(f"/proc/{sleeper}")


@needs_root
def test_a_small_disk_is_full_soon_and_gone_with_the_bed(tmp_path) -> None:
    with open_bed(1, base=tmp_path) as bed:
        mount_small_disk(bed.nodes[0].cache_folder, MEBIBYTE)
        with pytest.raises(OSError, match="No space left"):
            (bed.nodes[0].cache_folder / "big").write_bytes(b"x" * 2 * MEBIBYTE)
    assert not bed.folder.exists()


def test_without_root_a_bed_says_what_it_cannot_do(tmp_path) -> None:
    with LoopbackBed(2, base=tmp_path) as bed:
        first, second = bed.nodes
        assert first.address != second.address
        serve_files(second, b"x" * 1000)
        assert fetch(first, second) == 1000
        with pytest.raises(UnsupportedError, match="need root"):
            second.link_down()
        with pytest.raises(UnsupportedError, match="cut, limited and counted"):
            bed.need(Capability.LINKS)
    assert not bed.folder.exists()


@needs_root
def test_a_listener_hears_what_its_port_carries_and_nothing_else(bed, tmp_path) -> None:
    first, second = bed.nodes
    serve_files(second, b"a mark in clear " * 10_000)
    heard = {port: tmp_path / str(port) for port in (PORT, PORT + 1)}
    for port, path in heard.items():
        command = [sys.executable, "-m", "headrace.testing.cluster.sniffer", "eth0", str(port), path]
        listener = first.run(command, name=f"sniffer-{port}")
        listener.wait_until(lambda listener=listener: b"ready" in listener.log_path.read_bytes())
    assert fetch(first, second) == 160_000
    # Where an acknowledgement is late, on a busy machine, a piece is carried twice.
    assert wait_for(lambda: heard[PORT].read_bytes().count(b"a mark in clear ") >= 10_000)
    assert heard[PORT + 1].read_bytes() == b""


@needs_root
def test_a_secret_in_the_memory_of_a_process_is_found(bed) -> None:
    node, secret = bed.nodes[0], b"a planted secret of this test"
    # Upper case in the program, so that only its memory holds it as it is.
    script = (
        f"import time; kept = {secret.decode().upper()!r}.lower(); print('ready', flush=True); time.sleep(60)"
    )
    process = node.run(
        [sys.executable, "-c", script], name="holder", environment={"PLANTED": "in the environment"}
    )
    process.wait_until(lambda: b"ready" in process.log_path.read_bytes())
    assert places_that_hold(process.pid, secret) not in ([], ["environ"])
    assert "environ" in places_that_hold(process.pid, b"in the environment")
    assert places_that_hold(process.pid, secret[::-1]) == []


def namespaces_now() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout


def wait_until_gone(path: str) -> bool:
    return wait_for(lambda: not os.path.exists(path))


def wait_for(is_so) -> bool:
    deadline = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
