"""The keeper over its real socket: it believes nothing that it can check, and survives whatever is sent to it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.csi.keeper import Keeper
from headrace.roles.keeper.line import KeeperLine
from headrace.roles.keeper.messages import (
    LARGEST_BYTES,
    Deposit,
    GarbledError,
    Kind,
    decode,
    encode,
)
from headrace.roles.mountpoint.mount_table import KIND, MountEntry

DEPOSIT = Deposit("/nowhere/mounted", "/state", "{}", "data", "0:1", None, 0)


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """A supervisor gives a keeper up after a second; one that a busy machine holds up is not away."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headrace.roles.keeper.line._PATIENCE_S", 60.0)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The socket of a keeper that runs in a thread."""
    with running_keeper(tmp_path / "keeper" / "keeper.sock") as socket_path:
        yield socket_path
    assert not socket_path.exists()


@contextlib.contextmanager
def running_keeper(socket_path: Path) -> Iterator[Path]:
    started, loop, ended = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    keeper = Keeper(socket_path, lambda _: False, unused_s=0, stranded_s=0)

    async def run() -> None:
        keeper.open()
        started.set()
        await ended.wait()
        keeper.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert started.wait(60)
    try:
        yield socket_path
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(60)
    assert not thread.is_alive()
    loop.close()


@contextlib.contextmanager
def fuse_and_ledger() -> Iterator[tuple[int, int]]:
    """Descriptors as a supervisor deposits them."""
    memory = os.memfd_create("ledger", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        yield device, memory
    finally:
        os.close(memory)
        os.close(device)


def asked(path: Path, packet: bytes, descriptors: tuple[int, ...] = ()) -> tuple[Kind, dict] | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.settimeout(60)
        line.connect(str(path))
        socket.send_fds(line, [packet], list(descriptors))
        body = line.recv(LARGEST_BYTES)
        if not body:
            return None
        answer = decode(body)
        return answer.kind, answer.body


def test_only_its_owner_reaches_the_socket(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.root
def test_other_users_are_turned_away(path: Path) -> None:
    path.parent.chmod(0o777)
    path.chmod(0o777)
    pid = os.fork()
    if pid == 0:
        os.chdir(path.parent)  # the folders above are closed to others
        os.setuid(65534)
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(60)
        code = 1
        with contextlib.suppress(OSError):
            line.connect(path.name)
            code = 2
            line.send(encode(Kind.CLAIM, {"mountpoint": "/a"}))
            code = 0 if line.recv(100) == b"" else 3
        # A line that was ended before we wrote is turned away as well.
        os._exit(0 if code == 2 else code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_is_not_held_is_free(path: Path) -> None:
    assert asked(path, encode(Kind.CLAIM, {"mountpoint": "/a"})) == (Kind.FREE, {})
    assert asked(path, encode(Kind.WITHDRAW)) == (Kind.DONE, {})


def test_a_deposit_is_believed_only_with_the_right_descriptors(path: Path) -> None:
    memory = os.memfd_create("x")
    try:
        for descriptors in ((), (memory,), (memory, memory)):
            answer = asked(path, DEPOSIT.packet(), descriptors)
            assert answer is not None
            assert answer[0] is Kind.REFUSED
            assert "descriptor" in answer[1]["reason"]
    finally:
        os.close(memory)


KEEPER = """
import asyncio, logging, sys
from pathlib import Path
from headrace.csi.keeper import Keeper
logging.basicConfig(format="%(message)s")
async def run():
    Keeper(Path(sys.argv[1]), lambda _: False, unused_s=0, stranded_s=0).open()
    print("open", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(run())
"""


@pytest.mark.root
@pytest.mark.parametrize("unshare", [(), ("unshare", "--pid", "--fork")], ids=["here", "in another pod"])
def test_its_log_names_who_asks_as_far_as_it_can(tmp_path: Path, unshare: tuple[str, ...]) -> None:
    """Between two process namespaces, as between two pods, SO_PEERCRED says 0."""
    path = tmp_path / "keeper" / "keeper.sock"
    words = [*unshare, sys.executable, "-c", KEEPER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "open\n"
        assert asked(path, encode(Kind.DONE)) is not None
        _, said = keeper.communicate("", timeout=60)
    who = "a process of another pod" if unshare else f"process {os.getpid()}"
    assert f"refused {who}: " in said


@pytest.mark.root
def test_a_deposit_of_what_is_not_mounted_there_is_refused(path: Path) -> None:
    with fuse_and_ledger() as descriptors:
        answer = asked(path, DEPOSIT.packet(), descriptors)
    assert answer is not None
    assert answer[0] is Kind.REFUSED
    assert "propagate" in answer[1]["reason"]


@pytest.mark.parametrize("kind", [Kind.HELD, Kind.FREE, Kind.DONE, Kind.REFUSED])
def test_answers_are_no_questions(path: Path, kind: Kind) -> None:
    answer = asked(path, encode(kind))
    assert answer is not None
    assert answer[0] is Kind.REFUSED


def test_a_later_version_is_told_which_one_is_spoken(path: Path) -> None:
    answer = asked(path, struct.pack("<4sHHII", b"HRKP", 2, 1, 0, 0))
    assert answer is not None
    assert answer[0] is Kind.REFUSED
    assert "version 2" in answer[1]["reason"]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.binary(min_size=1, max_size=200)
    | st.builds(
        encode,
        st.sampled_from([Kind.CLAIM, Kind.DEPOSIT]),
        st.dictionaries(
            st.sampled_from(["mountpoint", "words", "x"]), st.none() | st.text(max_size=9) | st.integers()
        ),
    )
)
def test_no_packet_disturbs_it(path: Path, packet: bytes) -> None:
    answer = asked(path, packet)
    assert answer is not None
    assert answer[0] in (Kind.REFUSED, Kind.FREE)
    assert asked(path, encode(Kind.CLAIM, {"mountpoint": "/a"})) == (Kind.FREE, {})


def test_a_packet_that_is_too_long_is_refused(path: Path) -> None:
    answer = asked(path, b"x" * (LARGEST_BYTES + 1))
    assert answer is not None
    assert answer[0] is Kind.REFUSED


def test_one_mountpoint_has_one_supervisor(path: Path) -> None:
    first, second = KeeperLine(str(path), "/state"), KeeperLine(str(path), "/state")
    assert first.claim("/a").refused is None
    assert "another supervisor" in str(second.claim("/a").refused)
    assert second.claim("/b").refused is None
    first.withdraw()
    deadline = time.monotonic() + 60
    while (claimed := second.claim("/a")).refused and time.monotonic() < deadline:
        time.sleep(0.01)
    assert claimed.refused is None
    second.withdraw()


def test_a_supervisor_may_leave_only_what_is_held(path: Path) -> None:
    line = KeeperLine(str(path), "/state")
    assert not line.leave(), "it never asked for anything"
    line.claim(DEPOSIT.mountpoint)
    assert not line.leave(), "nothing was deposited"
    line.withdraw()


@pytest.mark.root
def test_a_mount_is_taken_off_with_the_keeper_also_while_its_supervisor_is_about_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told to end at the same moment, the keeper may be the first to be gone: nobody would look after the mount."""
    taken_off: list[str] = []
    there = MountEntry(1, DEPOSIT.device, DEPOSIT.mountpoint, KIND)
    monkeypatch.setattr("headrace.csi.keeper.mount_at", lambda _: there)
    monkeypatch.setattr("headrace.csi.keeper.abort", lambda _: True)
    monkeypatch.setattr("headrace.csi.keeper.detach", lambda path, *_, **__: taken_off.append(path) or True)
    with running_keeper(tmp_path / "keeper.sock") as path, fuse_and_ledger() as (device, ledger):
        line = KeeperLine(str(path), DEPOSIT.lineage)
        line.exchange(DEPOSIT, device, ledger)
        assert line.leave()
        assert not taken_off
    assert taken_off == [DEPOSIT.mountpoint]
    assert not line.leave(), "the keeper is gone"


def test_a_keeper_that_is_not_there_is_away(tmp_path: Path) -> None:
    line = KeeperLine(str(tmp_path / "nothing"), "/state")
    assert line.claim("/a").away
    said = line.exchange(DEPOSIT, 0, 1)
    assert said is not None
    assert "is away" in said
    assert line.exchange(DEPOSIT, 0, 1) is None, "it is said once"
    assert not line.holds
    line.withdraw()


# The messages alone


texts = st.text(max_size=30)
deposits = st.builds(
    Deposit,
    mountpoint=st.sampled_from(["/a", "/var/lib/headrace/mounts/ns/name"]),
    lineage=texts,
    words=texts,
    name=texts,
    device=texts,
    log_file=st.none() | texts,
    restarts=st.integers(0, 1 << 40),
)


@given(deposits)
def test_a_deposit_arrives_as_it_was_sent(deposit: Deposit) -> None:
    packet = decode(deposit.packet())
    assert packet.kind is Kind.DEPOSIT
    assert Deposit.of(packet.body) == deposit


@given(deposits, st.data())
def test_a_changed_byte_is_noticed(deposit: Deposit, data: st.DataObject) -> None:
    packet = bytearray(deposit.packet())
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(GarbledError):
        decode(bytes(packet))


@given(st.binary(max_size=100))
def test_what_is_no_message_is_refused(packet: bytes) -> None:
    with pytest.raises(GarbledError):
        decode(packet)


@pytest.mark.parametrize("mountpoint", ["", "a", "/", "/a/../b", "/a//b", "/a/", "/a\0", 7, None])
def test_a_mountpoint_is_absolute_and_plain(mountpoint: object) -> None:
    body = decode(DEPOSIT.packet()).body | {"mountpoint": mountpoint}
    with pytest.raises(GarbledError):
        Deposit.of(body)


@pytest.mark.parametrize("change", [{"words": 1}, {"restarts": "1"}, {"log_file": 1}, {"more": 1}])
def test_a_deposit_with_wrong_values_is_refused(change: dict) -> None:
    with pytest.raises(GarbledError):
        Deposit.of(decode(DEPOSIT.packet()).body | change)
