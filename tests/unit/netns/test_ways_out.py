"""What nodes on a switch reach: this machine's loopback where a port was lent, and everything behind this machine."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.netns import gateway
from headrace.netns.gateway import (
    TABLE_PREFIX,
    Gateway,
    can_lead_out,
    close_way,
    devices_to_guard,
    names_behind,
    open_way,
    rules_of,
)
from headrace.netns.lock import network_lock
from headrace.netns.loopback import lend_ports, loopback_ports, open_loopback
from headrace.netns.namespaces import (
    can_make_namespaces,
    enter_prefix,
    make_namespace,
    remove_namespace,
)
from headrace.netns.subnets import free_subnet
from headrace.netns.switch import make_switch, plug_host, plug_node, unplug_host

CLONE_NEWNET = 0x40000000
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
needs_root = pytest.mark.skipif(not can_make_namespaces(), reason="namespaces need root")
needs_nft = pytest.mark.skipif(not can_lead_out(), reason="nft is not installed")

SERVE = """
import socket, sys
server = socket.socket()
server.bind((sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
server.listen()
print(server.getsockname()[1], flush=True)
while True:
    server.accept()[0].sendall(b"here")
"""
ASK = """
import socket, sys
try:
    print(socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).recv(9).decode())
except OSError as error:
    print(type(error).__name__)
"""


@dataclass(frozen=True)
class Bed:
    """A switch with one node, beside this machine."""

    name: str
    device: str
    subnet: ipaddress.IPv4Network

    @property
    def node(self) -> str:
        """Its namespace."""
        return f"{self.name}-node"

    @property
    def gateway(self) -> Gateway:
        """Its way out."""
        return Gateway(f"{TABLE_PREFIX}{self.device}", self.device, str(self.subnet))

    def make(self) -> None:
        make_switch(f"{self.name}-switch")
        plug_host(f"{self.name}-switch", self.device, f"{self.subnet[-2]}/24")
        open_loopback(self.device)
        make_namespace(self.node)
        interface, gateway = f"{self.subnet[1]}/24", str(self.subnet[-2])
        plug_node(f"{self.name}-switch", self.node, port="node", interface=interface, gateway=gateway)

    def remove(self) -> None:
        close_way(self.gateway.table, None)
        remove_namespace(self.node)
        remove_namespace(f"{self.name}-switch")
        unplug_host(self.device)

    def ask(self, host: str, port: int, patience_s: float = 60) -> str:
        command = [*enter_prefix(self.node), sys.executable, "-c", ASK, host, str(port), str(patience_s)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def make_bed(number: int) -> Bed:
    # What is free is taken before anybody else looks.
    with network_lock():
        subnet = free_subnet(24, start=os.getpid() + number)
        bed = Bed(f"hrway{os.getpid()}x{number}", f"hrl{os.getpid()}x{number}", subnet)
        bed.make()
    return bed


@pytest.fixture
def bed() -> Iterator[Bed]:
    made = make_bed(0)
    yield made
    made.remove()


class Server:
    """Answers everybody with a word."""

    def __init__(self, *words: str, prefix: tuple[str, ...] = ()) -> None:
        command = [*prefix, sys.executable, "-c", SERVE, *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@needs_root
def test_a_lent_port_leads_to_this_machine_and_no_other_does(bed: Bed) -> None:
    gateway, address = str(bed.subnet[-2]), str(bed.subnet[1])
    with Server("127.0.0.1") as lent, Server("127.0.0.1") as other:
        assert bed.ask("127.0.0.1", lent.port) == "ConnectionRefusedError"
        for _ in range(2):
            lend_ports(bed.node, gateway, address, [lent.port])
        assert bed.ask("127.0.0.1", lent.port) == "here"
        assert bed.ask("127.0.0.1", other.port) == "ConnectionRefusedError"
        lend_ports(bed.node, gateway, address, [other.port])
        assert bed.ask("127.0.0.1", lent.port) == bed.ask("127.0.0.1", other.port) == "here"


@needs_root
def test_programs_of_a_node_have_their_own_loopback(bed: Bed) -> None:
    lend_ports(bed.node, str(bed.subnet[-2]), str(bed.subnet[1]), [9])
    with Server("127.0.0.1", prefix=enter_prefix(bed.node)) as own:
        assert bed.ask("127.0.0.1", own.port) == "here"


@pytest.fixture
def own_network() -> Iterator[None]:
    """A network in which this process is alone: whether a machine forwards depends on all backends there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as home:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            FORWARDING.write_text("0")
            yield
        finally:
            assert libc.setns(home.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


@needs_root
@needs_nft
@pytest.mark.usefixtures("own_network")
def test_nodes_reach_what_is_behind_this_machine_and_nobody_gets_a_router() -> None:
    first, second = make_bed(0), make_bed(2)
    guarded = devices_to_guard()
    open_way(first.gateway, guarded)
    # What comes to this machine later is reached, too.
    beyond = make_bed(1)
    address = str(beyond.subnet[1])
    try:
        with Server(address, prefix=enter_prefix(beyond.node)) as server:
            assert first.ask(address, server.port) == "here"
            with Server(str(first.subnet[1]), prefix=enter_prefix(first.node)) as inside:
                assert beyond.ask(str(first.subnet[1]), inside.port, patience_s=2) == "TimeoutError"
            also = devices_to_guard()
            assert (also is None) == (guarded is None)
            open_way(second.gateway, also)
            close_way(first.gateway.table, guarded)
            assert second.ask(address, server.port) == "here", "the other switch still needs the way"
            close_way(second.gateway.table, also)
            assert FORWARDING.read_text() == "0\n"
    finally:
        for bed in (first, second, beyond):
            bed.remove()


# What the nodes of one backend do when they are made, and when they are taken away.
COME_AND_GO = """
import sys
from pathlib import Path
from headrace.netns.gateway import Gateway, TABLE_PREFIX, close_way, devices_to_guard, open_way
from headrace.netns.lock import network_lock
number = sys.argv[1]
way = Gateway(f"{TABLE_PREFIX}{number}", f"hrl{number}", f"198.18.{number}.0/24")
for _ in range(15):
    with network_lock():
        guarded = devices_to_guard()
        open_way(way, guarded)
    for _ in range(100):
        assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == "1\\n", "its nodes lost their way out"
    with network_lock():
        close_way(way.table, guarded)
"""


@needs_root
@needs_nft
@pytest.mark.usefixtures("own_network")
def test_backends_that_come_and_go_at_once_keep_their_ways_and_leave_no_router() -> None:
    command = [sys.executable, "-c", COME_AND_GO]
    started = [
        subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE, text=True) for number in range(4)
    ]
    assert [process.communicate()[1] for process in started] == [""] * 4
    assert FORWARDING.read_text() == "0\n"


@needs_nft
@needs_root
def test_rules_for_a_resolver_of_loopback_are_rules() -> None:
    gateway = Gateway(f"{TABLE_PREFIX}names", "hrnone", "198.19.250.0/24")
    text = rules_of(gateway, ["eth7"], ("127.0.0.53", "192.0.2.53"))
    done = subprocess.run(["nft", "-c", "-f", "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("resolver", "behind", "found"),
    [
        ("nameserver 192.0.2.1\n", "nameserver 192.0.2.2\n", None),
        ("nameserver 127.0.0.53\noptions edns0\n", "nameserver 192.0.2.2\n", ("127.0.0.53", "192.0.2.2")),
        ("nameserver 127.0.0.53\nnameserver 192.0.2.1\n", "nameserver 192.0.2.2\n", None),
        ("nameserver 127.0.0.53\n", "", None),
        ("nameserver 127.0.0.53\n", "nameserver fe80::1\nnameserver 127.0.0.1\n", None),
        ("# nothing\n", "nameserver 192.0.2.2\n", None),
    ],
)
def test_a_resolver_that_no_node_can_ask_is_seen(resolver: str, behind: str, found: object) -> None:
    assert names_behind(resolver, behind) == found


@pytest.mark.parametrize(
    ("word", "ports"),
    [
        ("http://127.0.0.1:9000", {9000}),
        ("127.0.0.1:9000", {9000}),
        ("localhost:9000", {9000}),
        ("http://bucket.localhost:9000/", {9000}),
        ("https://localhost", {443}),
        ("http://127.3.2.1/files/", {80}),
        ("nfs://127.0.0.1/export", {111, 2049, 20048}),
        ("nfs://127.0.0.1:12049/export", {111, 2049, 20048, 12049}),
        ("webhdfs://127.0.0.1/data", {9870}),
        ("s3://bucket/127.0.0.1", set()),
        ("http://198.51.100.7:9000", set()),
        ("oss-cn-beijing.aliyuncs.com", set()),
        ("true", set()),
        ("http://[::1", set()),
        ("http://127.0.0.1:99999", set()),
    ],
)
def test_ports_of_loopback_are_found_in_addresses(word: str, ports: set[int]) -> None:
    assert loopback_ports([word]) == ports


def test_a_way_that_closes_while_another_opens_leaves_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [False, True]
    forwarding = tmp_path / "ip_forward"
    monkeypatch.setattr(gateway, "_FORWARDING", forwarding)
    monkeypatch.setattr(gateway, "_is_guarded", lambda: looks.pop(0))
    close_way(f"{TABLE_PREFIX}nobody", ("eth0",))
    assert forwarding.read_text() == "1"
