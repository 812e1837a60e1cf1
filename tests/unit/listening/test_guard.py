"""What a guard makes of the bytes of a stranger, one piece after the other."""

from __future__ import annotations

import asyncio

import pytest

from headrace.listening.crowd import Bounds, Crowd
from headrace.listening.guard import Guard, Times

FIRST = b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"
NEXT = b"POST /b HTTP/1.1\r\nContent-Length: 6\r\n\r\nagain!"


class Wire(asyncio.Transport):
    """A connection's side that notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Server(asyncio.Protocol):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.given = b""

    def data_received(self, data: bytes) -> None:
        self.given += data


class Scene:
    """A guard between a wire and a server."""

    def __init__(self, *, stays: bool) -> None:
        self.wire, self.server, self.ended = Wire(), Server(), list[Guard]()
        self.crowd: Crowd[Guard] = Crowd(Bounds(held_bytes=1 << 20))
        self.guard = Guard(self.crowd, Times(), lambda: self.server, self.ended.extend, stays=stays)
        self.crowd.arrive(self.guard, "192.0.2.1")
        self.guard.connection_made(self.wire)

    def says(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.guard.data_received(piece)


@pytest.mark.parametrize("cut", [1, len(NEXT) // 2, len(NEXT)])
def test_the_next_request_that_is_there_before_the_answer_is_known_to_be_sent_is_kept(cut: int) -> None:
    async def told() -> None:
        scene = Scene(stays=True)
        scene.says(FIRST)
        scene.guard.answer(0)
        scene.says(NEXT[:cut])
        assert scene.server.given == FIRST, "it asks one thing at a time"
        assert scene.crowd.held_bytes == cut and not scene.wire.reads
        scene.guard.rest()
        assert scene.wire.reads
        scene.says(NEXT[cut:])
        assert scene.server.given == FIRST + NEXT

    asyncio.run(told())


def test_what_comes_while_the_only_answer_is_sent_is_forgotten() -> None:
    async def told() -> None:
        scene = Scene(stays=False)
        scene.says(FIRST)
        scene.guard.answer(0)
        scene.says(NEXT)
        assert (scene.crowd.held_bytes, scene.wire.reads) == (0, True)
        scene.guard.rest()
        assert scene.server.given == FIRST

    asyncio.run(told())
