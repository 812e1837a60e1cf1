"""A small web server in a thread of its own, for the few pages of a process that has no event loop.

Anybody can reach it. One thread reads and writes on all connections and waits for none; pages that take long are made
in a second one, once for all who wait for them. So connections cost no threads, and nothing is in the way of a probe.
"""

from __future__ import annotations

import logging
import math
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from headrace.errors import BusyError
from headrace.listening.crowd import Bounds, Crowd
from headrace.listening.spare import Spare
from headrace.roles.pages.page_request import MOST_HEAD_BYTES, Page, encoded, read_request
from headrace.settings.addresses import parse_address

_log = logging.getLogger("headrace.pages")
_BOUNDS = Bounds(connections=256, strangers=256, strangers_of_address=128, held_bytes=4 << 20)
_TIMEOUT_S = 10.0
_PIECE_BYTES = 64 << 10
_BACKLOG = 128


class _Visitor:
    """A connection, from its head to the end of its answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.head = bytearray()
        self.answer = memoryview(b"")
        self.due_s = 0.0


class _Made(NamedTuple):
    path: str
    answer: bytes


class Pages:
    """Answers until it is closed. `answer` gets the path without a query, for those of `slow` in another thread."""

    def __init__(
        self,
        address: str,
        answer: Callable[[str], Page],
        *,
        purpose: str,
        setting: str,
        slow: frozenset[str] = frozenset(),
        bounds: Bounds = _BOUNDS,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """Listens. Raises `BusyError`, which says for which `purpose` and which `setting` to change."""
        try:
            self._listener = _listener(*parse_address(address))
        except OSError as error:
            raise BusyError.of(
                f"cannot listen on {address} {purpose}: {error.strerror}", hint=f"give another {setting}"
            ) from None
        self._answer = answer
        self._slow = slow
        self._timeout_s = timeout_s
        self._crowd: Crowd[_Visitor] = Crowd(bounds)
        # Of a slow page, those whom the one that is being made is for, and those who came later.
        self._waiting: dict[str, set[_Visitor]] = {}
        self._later: dict[str, set[_Visitor]] = {}
        self._spare = Spare()
        self._maker = _Maker(answer, self._wake)
        self._bell, self._ringer = socket.socketpair()
        self._is_closing = False
        self._selector = selectors.DefaultSelector()
        for each in (self._listener, self._bell, self._ringer):
            each.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._bell, selectors.EVENT_READ, self._hear_bell)
        self._thread = threading.Thread(target=self._run, name="pages", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port, also when 0 was asked for."""
        return int(self._listener.getsockname()[1])

    @property
    def visitors(self) -> int:
        """Number of connections."""
        return len(self._crowd)

    def close(self) -> None:
        """Ends the thread and frees the port."""
        self._is_closing = True
        self._wake()
        self._thread.join()
        self._maker.close()
        for each in (self._bell, self._ringer, self._selector):
            each.close()

    # In the thread

    def _run(self) -> None:
        while not self._is_closing:
            for key, _ in self._selector.select(self._patience_s()):
                try:
                    key.data()
                except Exception:
                    _log.exception("pages: a connection met a fault of ours")
            self._expire()
        self._listener.close()
        self._spare.close()
        for visitor in self._crowd:
            self._end(visitor)

    def _wake(self) -> None:
        try:
            self._ringer.send(b"!")
        except OSError:
            # It rings already, or nobody is there any more.
            return

    def _hear_bell(self) -> None:
        self._bell.recv(_PIECE_BYTES)
        while self._maker.made:
            made = self._maker.made.popleft()
            for visitor in self._waiting.pop(made.path, set()):
                self._say(visitor, made.answer)
            if later := self._later.pop(made.path, None):
                self._waiting[made.path] = later
                self._maker.make(made.path)

    def _patience_s(self) -> float | None:
        due_s = min((visitor.due_s for visitor in self._crowd), default=math.inf)
        return None if due_s == math.inf else max(0.0, due_s - time.monotonic())

    def _expire(self) -> None:
        now_s = time.monotonic()
        for visitor in self._crowd:
            if visitor.due_s <= now_s:
                self._end(visitor)

    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
        except OSError as error:
            if not isinstance(error, (BlockingIOError, ConnectionError)):
                self._make_room()
            return
        self._spare.renew()
        connection.setblocking(False)
        visitor = _Visitor(connection)
        visitor.due_s = time.monotonic() + self._timeout_s
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._hear(visitor))
        self._end_all(self._crowd.arrive(visitor, str(address[0])))

    def _make_room(self) -> None:
        """For the next connection, where the process is out of descriptors, most likely."""
        oldest = self._crowd.oldest()
        self._end_all(oldest)
        if oldest or not self._spare.lend():
            time.sleep(0.02)
            self._spare.renew()

    def _hear(self, visitor: _Visitor) -> None:
        try:
            piece = visitor.connection.recv(_PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._end(visitor)
            return
        visitor.head += piece
        self._understand(visitor)

    def _understand(self, visitor: _Visitor) -> None:
        told = read_request(visitor.head)
        if told is None:
            if len(visitor.head) > MOST_HEAD_BYTES:
                self._end(visitor)
            return
        # What comes after a head is nothing that we answer.
        self._selector.unregister(visitor.connection)
        visitor.head.clear()
        if isinstance(told, Page):
            self._say(visitor, encoded(told))
        elif told in self._slow:
            self._wait_for(told, visitor)
        else:
            self._say(visitor, _made(self._answer, told))

    def _wait_for(self, path: str, visitor: _Visitor) -> None:
        visitor.due_s = math.inf
        if path in self._waiting:
            self._later.setdefault(path, set()).add(visitor)
            return
        self._waiting[path] = {visitor}
        self._maker.make(path)

    def _say(self, visitor: _Visitor, answer: bytes) -> None:
        if visitor.connection.fileno() < 0:
            return
        visitor.answer = memoryview(answer)
        visitor.due_s = time.monotonic() + self._timeout_s
        self._end_all(self._crowd.hold(visitor, len(answer)))
        self._send(visitor)

    def _send(self, visitor: _Visitor) -> None:
        try:
            sent = visitor.connection.send(visitor.answer)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._end(visitor)
            return
        visitor.answer = visitor.answer[sent:]
        if not visitor.answer:
            self._end(visitor)
        elif visitor.connection not in self._selector.get_map():
            self._selector.register(visitor.connection, selectors.EVENT_WRITE, lambda: self._send(visitor))

    def _end_all(self, visitors: list[_Visitor]) -> None:
        for visitor in visitors:
            self._end(visitor)

    def _end(self, visitor: _Visitor) -> None:
        if visitor.connection.fileno() < 0:
            return
        if visitor.connection in self._selector.get_map():
            self._selector.unregister(visitor.connection)
        self._crowd.leave(visitor)
        for waiting in (*self._waiting.values(), *self._later.values()):
            waiting.discard(visitor)
        visitor.connection.close()


class _Maker:
    """Makes slow pages, one after the other, in a thread that begins with the first."""

    def __init__(self, answer: Callable[[str], Page], ready: Callable[[], None]) -> None:
        self.made: deque[_Made] = deque()
        self._answer = answer
        self._ready = ready
        self._paths: deque[str] = deque()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def make(self, path: str) -> None:
        """Begins with a page, which is `made` later."""
        with self._change:
            self._paths.append(path)
            self._change.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pages-maker", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends, without waiting for a page that is being made."""
        with self._change:
            self._is_closing = True
            self._change.notify()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._paths or self._is_closing)
                if self._is_closing:
                    return
                path = self._paths.popleft()
            self.made.append(_Made(path, _made(self._answer, path)))
            self._ready()


def _made(answer: Callable[[str], Page], path: str) -> bytes:
    try:
        return encoded(answer(path))
    except Exception:
        _log.exception("pages: %s failed", path)
        return encoded(Page(HTTPStatus.INTERNAL_SERVER_ERROR, "this page cannot be made; the log says why\n"))


def _listener(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
