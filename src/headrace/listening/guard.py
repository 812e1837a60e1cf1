"""One connection of a listener: strangers are read within bounds, and a server of HTTP sees nothing but whole heads.

A stranger asks one thing at a time and has a deadline for all it does. Bytes that it sends while it is answered are its
next request where the connection lives on, and are kept until then; elsewhere they are read and forgotten. Knows
nothing of the requests' meaning.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from headrace.listening.crowd import Crowd

MOST_HEAD_BYTES = 16 << 10
SMALL_ANSWER_BYTES = 4 << 10
"""Answers to probes are never in the way of anybody."""

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*\r\n")
_OF_UNKNOWN_LENGTH = re.compile(rb"(?i)\r\ntransfer-encoding:")
_BEGINNING = re.compile(rb"[A-Z\r\n]")


@dataclass(frozen=True)
class Times:
    """Deadlines of a connection."""

    head_s: float = 10.0
    """A stranger, from its arrival until it has said what it wants, TLS included."""
    request_s: float = 15.0
    """A stranger, to send the rest."""
    answer_s: float = 15.0
    """A stranger, to read its answer."""
    idle_s: float = 75.0
    """Anybody, between two requests; longer than our clients keep a connection that they do not use."""


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    ANSWER = auto()


class Guard(asyncio.Protocol):
    """Stands between a connection and the protocol of a server."""

    def __init__(
        self,
        crowd: Crowd[Guard],
        times: Times,
        inner: Callable[[], asyncio.Protocol],
        end: Callable[[list[Guard]], None],
        *,
        stays: bool,
    ) -> None:
        self.greeting: asyncio.Task[None] | None = None
        self._crowd = crowd
        self._times = times
        self._make_inner = inner
        self._end_others = end
        self._stays = stays
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._state = _State.HEAD
        self._head = bytearray()
        self._early = bytearray()
        self._body_left = 0
        self._answer_bytes = 0
        self._held_bytes = 0
        self._has_surplus = False
        self._is_dismissed = False
        self._over = asyncio.Event()
        self.is_member = False

    # What the server says of it

    def prove(self) -> None:
        """It has shown that it belongs here: the bounds of strangers are not for it any more."""
        if self.is_member:
            return
        self.is_member = True
        self._crowd.prove(self)
        self._stop_timer()
        if self._transport is not None:
            self._transport.set_write_buffer_limits()

    def answer(self, size_bytes: int) -> None:
        """An answer of this size is about to be sent."""
        if self.is_member:
            return
        self._state = _State.ANSWER
        self._answer_bytes = size_bytes if size_bytes > SMALL_ANSWER_BYTES else 0
        self._hold(self._answer_bytes + len(self._early))
        self._start_timer(self._times.answer_s)

    @property
    def is_waiting(self) -> bool:
        """True for a stranger that has not sent a whole head yet."""
        return self._state is _State.HEAD and not self.is_member

    @property
    def may_ask_again(self) -> bool:
        """True when a stranger's connection lives on after its answer."""
        return self._stays and self._body_left == 0 and not self._has_surplus

    async def dismiss(self, at_most_s: float) -> None:
        """Reads and forgets what still comes, until it goes: else the kernel would take back the answer just sent."""
        self._is_dismissed = True
        self._early.clear()
        if self._transport is not None:
            self._transport.resume_reading()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._over.wait()

    def rest(self) -> None:
        """The answer was sent, and the next request of a stranger may come."""
        self._hold(0)
        if self.may_ask_again and not self.is_member:
            self._state = _State.HEAD
            self._start_timer(self._times.idle_s)
            self._take_early()

    def end(self) -> None:
        """Closes the connection at once."""
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()
        elif self.greeting is not None:
            self.greeting.cancel()

    # What the connection says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there, its TLS as well."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("no connection of a stream")
        self._transport = transport
        # Who waits until an answer is sent waits for all of it: the rest would be memory that nobody counts. Not zero,
        # with which a connection of TLS that has sent all it had says every other time that it is full.
        transport.set_write_buffer_limits(1)
        self._start_timer(self._times.head_s)

    def data_received(self, data: bytes) -> None:
        """A piece of a head, a body, or what nobody asked for."""
        if self._is_dismissed:
            return
        if self.is_member:
            self._hand_on(data)
        elif self._state is _State.HEAD:
            self._gather(data)
        elif self._state is _State.BODY:
            self._take_body(data)
        elif self.may_ask_again:
            self._keep_early(data)

    def eof_received(self) -> None:
        """It sends no more."""
        if self._inner is not None:
            self._inner.eof_received()

    def pause_writing(self) -> None:
        """It reads too slowly."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """It has read on."""
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_timer()
        self._crowd.leave(self)
        self._transport = None
        self._over.set()
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.connection_lost(exc)

    # Inside

    def _gather(self, data: bytes) -> None:
        searched = max(0, len(self._head) - len(_END))
        self._head += data
        end = self._head.find(_END, searched) + len(_END)
        size_bytes = end if end >= len(_END) else len(self._head)
        if not _BEGINNING.match(self._head):
            # TLS, most likely, where there is none.
            self._refuse(b"400 Bad Request")
        elif size_bytes > MOST_HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        elif end < len(_END):
            self._hold(len(self._head))
        else:
            head, rest = bytes(self._head[:end]), bytes(self._head[end:])
            self._head.clear()
            self._begin(head, rest)

    def _begin(self, head: bytes, rest: bytes) -> None:
        if _OF_UNKNOWN_LENGTH.search(head):
            self._refuse(b"411 Length Required")
            return
        length = _LENGTH.search(head)
        self._body_left = int(length[1]) if length else 0
        self._state = _State.BODY
        self._hold(0)
        self._start_timer(self._times.request_s)
        if self._inner is None and self._transport is not None:
            self._inner = self._make_inner()
            self._inner.connection_made(self._transport)
        self._hand_on(head)
        if rest:
            self._take_body(rest)

    def _refuse(self, status: bytes) -> None:
        """Answers what no server need see."""
        self._state = _State.ANSWER
        self._head.clear()
        self._hold(0)
        if self._transport is not None:
            self._transport.write(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % status)
            self._transport.close()

    def _take_body(self, data: bytes) -> None:
        piece = data[: self._body_left]
        self._has_surplus = self._has_surplus or len(piece) < len(data)
        self._body_left -= len(piece)
        if piece:
            self._hold(self._held_bytes + len(piece))
            self._hand_on(piece)

    def _keep_early(self, data: bytes) -> None:
        """The answer is on its way or there already, before who sends it has its turn to say so: no byte is lost."""
        self._early += data
        self._hold(self._answer_bytes + len(self._early))
        if self._transport is not None:
            self._transport.pause_reading()

    def _take_early(self) -> None:
        if not self._early:
            return
        early = bytes(self._early)
        self._early.clear()
        if self._transport is not None:
            self._transport.resume_reading()
        self.data_received(early)

    def _hand_on(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)

    def _hold(self, size_bytes: int) -> None:
        if not self.is_member:
            self._held_bytes = size_bytes
            self._end_others(self._crowd.hold(self, size_bytes))

    def _start_timer(self, after_s: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(after_s, self.end)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
