"""The backend as a whole: it comes up, outlives kills, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import backends
import pytest
from killed_steps import instance_of, ours, setup_killed_at, teardown_killed_at

from headrace.cli.main import main
from headrace.errors import MissingFileError, RefusedError
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle.backend_lock import is_owned, owning
from headrace.local.lifecycle.teardown import tear_down
from headrace.local.nodes.managed_folders import ManagedFolders
from headrace.local.nodes.virtual_nodes import VirtualNodes
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.processes.role_processes import RoleOrder, RoleProcesses
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import Declaration, NodesWish
from headrace.local.store.database import Database
from headrace.netns.namespaces import can_make_namespaces
from headrace.netns.rates import MINIMUM_BURST_BYTES
from headrace.settings.environment import Environment
from headrace.testing.processes import freeze

needs_root = pytest.mark.skipif(not can_make_namespaces(), reason="network namespaces need root")
DEADLINE_S = 60.0
DATASET = {
    "apiVersion": "data.fluid.io/v1alpha1",
    "kind": "Dataset",
    "metadata": {"name": "shop"},
    "spec": {"mounts": [{"mountPoint": "s3://bucket", "name": "images"}]},
}


@pytest.fixture
def layout(tmp_path: Path):
    layout = BackendLayout(tmp_path / "local")
    yield layout
    backends.take_down(layout)


def role(tmp_path: Path, node: str = "node-1") -> RoleOrder:
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    log = str(tmp_path / "role.log")
    return RoleOrder("default.shop.worker-0", "default", "shop", "worker", node, command, log)


def test_declarations_outlive_a_kill_and_the_next_up(layout: BackendLayout) -> None:
    backends.bring_up(layout)
    client = LocalClient(layout)
    (outcome,) = client.declare(Declaration(verb="apply", objects=(DATASET,)))
    backends.kill(client)
    with pytest.raises(MissingFileError, match="not up"):
        client.objects(["Dataset"])
    backends.bring_up(layout)
    (item,) = client.objects(["Dataset"]).items
    assert item == outcome.document


def test_up_again_adds_nodes_and_changes_nothing_else(layout: BackendLayout) -> None:
    backends.bring_up(layout, 1)
    before = LocalClient(layout).status()
    backends.bring_up(layout, 3)
    backends.bring_up(layout, 2)
    after = LocalClient(layout).status()
    assert (after.pid, after.nodes[0]) == (before.pid, before.nodes[0])
    assert [node.name for node in after.nodes] == ["node-1", "node-2", "node-3"]
    assert len({node.address for node in after.nodes}) == 3


def test_two_ups_at_the_same_time_start_one_supervisor(layout: BackendLayout) -> None:
    program = (
        "import sys; from pathlib import Path; import backends; from headrace.local.layout import BackendLayout; "
        "backends.bring_up(BackendLayout(Path(sys.argv[1])))"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(backends.__file__).parent), *sys.path]),
    }
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(layout.folder)], env=environment, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    talk = [process.communicate(timeout=DEADLINE_S)[1].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], talk
    assert LocalClient(layout).hello().pid


def test_nobody_else_may_ask(layout: BackendLayout) -> None:
    backends.bring_up(layout)
    assert stat.S_IMODE(layout.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(layout.folder.stat().st_mode) == 0o700
    if os.geteuid() != 0:
        return
    for path in (layout.folder, *layout.folder.parents):
        if path.is_relative_to("/tmp"):
            os.chmod(path, stat.S_IMODE(path.stat().st_mode) | 0o005)
    os.chmod(layout.socket, 0o666)
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        try:
            LocalClient(layout).hello()
        except RefusedError:
            os._exit(7)
        except BaseException:
            os._exit(8)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_what_is_no_request_is_an_answer(layout: BackendLayout) -> None:
    backends.bring_up(layout)

    def asked(request: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(layout.socket))
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    head = b"HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 9\r\n\r\n"
    assert b'"kind":"Config"' in asked(b"POST /v1/declare " + head + b'{"a": "b"')
    assert b'"kind":"Config"' in asked(b"GET /v1/objects?kinds=Pod " + head + b" " * 9)
    assert b"404" in asked(b"GET /v2/hello " + head + b" " * 9)
    assert b"400" in asked(b"\x00\x01\x02\r\n\r\n")
    assert LocalClient(layout).hello().pid


@needs_root
def test_nodes_reach_each_other_and_this_machine(layout: BackendLayout) -> None:
    backends.bring_up(layout, 2)
    database = Database(layout.database)
    nodes = VirtualNodes(database, layout.nodes)
    first, second = nodes.all()
    with socket.create_server((nodes.network().host_address, 0)) as here:
        port = here.getsockname()[1]
        program = f"import socket; socket.create_connection(('{nodes.network().host_address}', {port}))"
        assert subprocess.run([*first.prefix, sys.executable, "-c", program], check=False).returncode == 0
    listen = f"import socket; s = socket.create_server(('{second.address}', 7000)); print(1, flush=True); s.accept()"
    with subprocess.Popen([*second.prefix, sys.executable, "-c", listen], stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        program = f"import socket; socket.create_connection(('{second.address}', 7000))"
        assert subprocess.run([*first.prefix, sys.executable, "-c", program], check=False).returncode == 0
    database.close()


@needs_root
def test_links_are_limited(layout: BackendLayout) -> None:
    from headrace.local.lifecycle import launch

    wish = NodesWish(
        count=1, link_bits_per_s=10**8, labels={"disk": "ssd"}, labels_of={"node-1": {"gpu": "v100"}}
    )
    (node,) = launch.bring_up(layout, wish, Environment.current(), release="test").nodes
    shown = subprocess.run(
        ["tc", "-n", node.namespace, "qdisc", "show"], capture_output=True, text=True, check=True
    )
    assert "rate 100Mbit" in shown.stdout
    assert node.labels == {"kubernetes.io/hostname": "node-1", "disk": "ssd", "gpu": "v100"}


RATE_BITS_PER_S = 10**8
SENT_BYTES = 6_000_000
# Takes so many bytes from the address, and says so; or sends them when it is told to.
TAKE = """import socket, sys
with socket.create_connection(({address!r}, {port})) as link:
    left = {count}
    while left and (piece := link.recv(min(left, 1 << 20))):
        left -= len(piece)
    link.sendall(b"." if not left else b"!")
"""
SEND = """import socket
with socket.create_connection(({address!r}, {port})) as link:
    link.recv(1)
    link.sendall(bytes({count}))
    link.recv(1)
"""


@needs_root
@pytest.mark.parametrize("program", [TAKE, SEND], ids=["received", "sent"])
def test_what_a_node_moves_takes_as_long_as_its_link_says(layout: BackendLayout, program: str) -> None:
    from headrace.local.lifecycle import launch

    wish = NodesWish(count=1, link_bits_per_s=RATE_BITS_PER_S)
    (line,) = launch.bring_up(layout, wish, Environment.current(), release="test", idle=True).nodes
    database = Database(layout.database)
    nodes = VirtualNodes(database, layout.nodes)
    (node,), address = nodes.all(), nodes.network().host_address
    database.close()
    with socket.create_server((address, 0)) as here:
        text = program.format(address=address, port=here.getsockname()[1], count=SENT_BYTES)
        with subprocess.Popen([*node.prefix, sys.executable, "-c", text]) as process:
            here.settimeout(DEADLINE_S)
            link, _ = here.accept()
            link.settimeout(DEADLINE_S)
            began = time.monotonic()
            with link:
                assert _moved(link, sends=program is TAKE)
            took_s = time.monotonic() - began
            assert process.wait(timeout=60) == 0
    # A bucket that is full at the start lets that much through at once.
    at_least_s = (SENT_BYTES - 2 * MINIMUM_BURST_BYTES) * 8 / RATE_BITS_PER_S
    assert took_s >= 0.9 * at_least_s, line


def _moved(link: socket.socket, *, sends: bool) -> bool:
    """Sends or takes all, and waits until the other side has it; true when all has arrived."""
    if sends:
        link.sendall(bytes(SENT_BYTES))
        return link.recv(1) == b"."
    link.sendall(b".")
    left = SENT_BYTES
    while left and (piece := link.recv(1 << 20)):
        left -= len(piece)
    link.sendall(b".")
    return left == 0


def test_an_ordinary_user_has_nodes_on_loopback(tmp_path: Path) -> None:
    """A user namespace without rights: what the kernel allows there, it allows any user."""
    become = ["unshare", "--user"] if os.geteuid() == 0 else []
    if subprocess.run([*become, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this kernel gives no user namespaces")

    def headrace(*words: str) -> str:
        command = [*become, sys.executable, "-P", "-m", "headrace.cli.main", *words]
        environment = {**os.environ, "HEADRACE_STATE_DIR": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    said = headrace("up", "--nodes", "2", "--link", "1Gbit")
    assert "2 nodes (node-1 … node-2), plain processes on 127.18." in said
    assert "warning: the links are not limited" in said
    assert "No resources found" in headrace("get", "dataset")
    headrace("down")
    assert not (tmp_path / "local").exists()


def test_down_leaves_nothing_behind(layout: BackendLayout, tmp_path: Path) -> None:
    """Also when the supervisor was killed before, and roles run without it."""
    backends.bring_up(layout, 2)
    instance = instance_of(layout)
    backends.kill(LocalClient(layout))
    with owning(layout, wait_s=DEADLINE_S):
        database = Database(layout.database)
        node = VirtualNodes(database, layout.nodes).all()[0]
        cache = ManagedFolders(database).make(tmp_path / "disk" / "cache")
        (cache / "block").write_bytes(b"x")

        async def start() -> None:
            roles = RoleProcesses(database, Environment.current())
            roles.start(role(tmp_path), node.prefix)
            roles.close()

        asyncio.run(start())
        database.close()
    assert len(tagged_processes(instance)) == 1
    assert tear_down(layout, keep_caches=False, wait_s=DEADLINE_S) == []
    reap()
    assert tagged_processes(instance) == []
    assert ours(instance) == []
    assert {path.name for path in tmp_path.iterdir()} <= {"private", "role.log"}


def test_down_keeps_caches_when_asked(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path))
    layout = BackendLayout(tmp_path / "local")
    assert main(["up"]) == 0
    assert "the local backend is up: 1 node" in capsys.readouterr().err
    database = Database(layout.database)
    inside = ManagedFolders(database).make(layout.nodes / "node-1" / "cache")
    database.close()
    (inside / "block").write_bytes(b"x")
    assert main(["down", "--keep-cache"]) == 0
    assert f"kept {inside}" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [inside / "block"]
    assert not is_owned(layout)


# One step that the next `up` finishes, one whose remains are taken away; tests/soak has all.
@needs_root
@pytest.mark.root
@pytest.mark.parametrize("step", [5, 10])
def test_a_setup_killed_at_a_step_is_finished_or_taken_away(tmp_path: Path, step: int) -> None:
    assert not setup_killed_at(tmp_path, step)


@needs_root
@pytest.mark.root
def test_a_teardown_killed_at_a_step_is_finished_by_the_next(tmp_path: Path) -> None:
    assert not teardown_killed_at(tmp_path, 2)


def reap() -> None:
    """Children of this process that were killed by number count as processes until they are waited for."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def test_a_supervisor_that_hangs_is_ended_by_down(layout: BackendLayout, monkeypatch) -> None:
    from headrace.local.lifecycle import launch

    backends.bring_up(layout)
    freeze(LocalClient(layout).hello().pid)
    launch.stop(layout, wait_s=10)
    assert not is_owned(layout)


@needs_root
def test_nodes_are_namespaces_with_a_way_out(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path))
    assert main(["up", "--nodes", "2"]) == 0
    assert "2 nodes (node-1 … node-2), network namespaces on 198.1" in capsys.readouterr().err
    assert main(["down"]) == 0


def test_plain_nodes_are_processes(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path))
    assert main(["up", "--nodes", "2", "--plain"]) == 0
    assert "2 nodes (node-1 … node-2), plain processes on 127.18." in capsys.readouterr().err
    nodes = LocalClient(BackendLayout(tmp_path / "local")).status().nodes
    assert [(node.namespace, node.address.split(".")[3]) for node in nodes] == [(None, "1"), (None, "2")]
    assert main(["down"]) == 0
    assert main(["up", "--plain", "--link", "1Gbit"]) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.root
def test_down_takes_off_what_is_mounted_on_nodes(layout: BackendLayout) -> None:
    backends.bring_up(layout)
    outer = layout.nodes / "node-1" / "a mount"
    outer.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(outer)], check=True)
    (outer / "inner").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(outer / "inner")], check=True)
    held = (outer / "inner" / "held").open("w")
    backends.take_down(layout)
    held.close()
    assert str(outer.parent) not in Path("/proc/self/mountinfo").read_text()
    assert not layout.folder.exists()
