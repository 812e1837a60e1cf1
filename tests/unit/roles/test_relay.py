"""The relay with a real pair of sockets, and a pipe in the place of the kernel's device."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

import pytest

from headrace.roles.supervision.relay import Relay, deliver

DEADLINE_S = 30


def message(body: bytes, unique: int = 0) -> bytes:
    return struct.pack("=IiQ", 16 + len(body), 3, unique) + body


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def counts(answer: bytes) -> tuple[int, ...]:
    return struct.unpack("<III", answer)


def test_every_message_of_a_packet_is_written_and_counted(pipe: tuple[int, int]) -> None:
    relay, theirs = Relay.pair()
    with theirs:
        theirs.settimeout(DEADLINE_S)
        theirs.send(message(b"early"))
        relay.start(pipe[1])
        assert counts(theirs.recv(100)) == (1, 0, 0)
        theirs.send(message(b"one") + message(b"") + message(b"three"))
        assert counts(theirs.recv(100)) == (3, 0, 0)
        assert not relay.has_ended(0)
    assert relay.has_ended(DEADLINE_S)
    assert os.read(pipe[0], 1000) == b"".join(map(message, (b"early", b"one", b"", b"three")))


def test_it_ends_when_the_mount_process_is_gone_before_its_answer(pipe: tuple[int, int]) -> None:
    relay, theirs = Relay.pair()
    with theirs:
        theirs.send(message(b"last"))
    relay.start(pipe[1])
    assert relay.has_ended(DEADLINE_S)
    assert os.read(pipe[0], 1000) == message(b"last")


def test_a_relay_that_was_never_started_lets_its_mount_process_know() -> None:
    relay, theirs = Relay.pair()
    with theirs:
        relay.close()
        assert relay.has_ended(0)
        assert theirs.recv(100) == b""


@pytest.mark.parametrize(
    "packet",
    [
        b"short",
        message(b"an answer to a request", unique=7),
        struct.pack("=IiQ", 15, 3, 0),
        struct.pack("=IiQ", 17, 3, 0),
    ],
)
def test_what_is_no_message_is_refused_and_ends_its_packet(packet: bytes, pipe: tuple[int, int]) -> None:
    assert deliver(message(b"good") + packet, pipe[1]) == (1, 0, 1)
    assert os.read(pipe[0], 1000) == message(b"good")


def test_what_cannot_be_written_is_refused() -> None:
    read_only = os.open(os.devnull, os.O_RDONLY)
    try:
        assert deliver(message(b"x"), read_only) == (0, 0, 1)
    finally:
        os.close(read_only)


@pytest.mark.parametrize(
    ("number", "counted"),
    [
        (errno.ENOENT, (0, 0, 0)),
        (errno.ENODEV, (0, 0, 0)),
        (errno.EINVAL, (0, 1, 0)),
        (errno.ENOSYS, (0, 1, 0)),
        (errno.EIO, (0, 0, 1)),
    ],
)
def test_what_the_kernel_says_is_told_apart(
    number: int, counted: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", refuse)
    assert deliver(message(b"x"), 0) == counted
