"""Accepts the connections of a server, each behind a guard, and closes strangers when there are too many."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import select
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.listening.crowd import Bounds, Crowd
from headrace.listening.guard import Guard, Times
from headrace.listening.spare import Spare

_log = logging.getLogger("headrace.listening")
_BACKLOG = 4096
_NO_SUCH_ADDRESS = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_RETRY_S = 0.05


class Door:
    """Lets connections in to protocols of `inner`, from `open` until `close`."""

    def __init__(
        self,
        inner: Callable[[], asyncio.Protocol],
        *,
        bounds: Bounds,
        times: Times,
        keeps_strangers: bool,
    ) -> None:
        """With `keeps_strangers` one may ask again on the same connection."""
        self.crowd: Crowd[Guard] = Crowd(bounds.within(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
        self._inner = inner
        self._times = times
        self._keeps_strangers = keeps_strangers
        self._tls: ssl.SSLContext | None = None
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._spare = Spare()

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listens; the port, also when 0 was asked for. Raises `OSError`."""
        self._tls = tls
        self._spare.renew()
        self._listeners = await _listeners(host, port)
        for listener in self._listeners:
            self._begin(self._accept(listener))
        return self.addresses[0][1]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses and ports that it listens on."""
        told = (listener.getsockname() for listener in self._listeners)
        return [(str(each[0]), int(each[1])) for each in told]

    async def close(self) -> None:
        """Accepts nobody any more, and ends those whom nobody answers."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.end([guard for guard in self.crowd if guard.is_waiting])
        for listener in self._listeners:
            listener.close()
        self._listeners = []
        self._spare.close()

    def end(self, guards: list[Guard]) -> None:
        """Closes some."""
        for guard in guards:
            guard.end()
            # At once: until the connection is gone it would be named again and again.
            self.crowd.leave(guard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        is_failing = False
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError as error:
                # The kernel says that there is no descriptor also where nobody wants one.
                if not _has_visitor(listener):
                    await asyncio.sleep(_RETRY_S)
                    continue
                if not is_failing:
                    _log.warning("cannot accept a connection: %s", error.strerror)
                is_failing = True
                await self._make_room()
                continue
            is_failing = False
            self._spare.renew()
            self._admit(connection, str(address[0]))
            # Those who are there have their turn, and may prove who they are, before the next one comes.
            await asyncio.sleep(0)

    async def _make_room(self) -> None:
        """For the next connection, where the process is out of descriptors, most likely."""
        oldest = self.crowd.oldest()
        self.end(oldest)
        if oldest or not self._spare.lend():
            await asyncio.sleep(_RETRY_S)
            self._spare.renew()

    def _admit(self, connection: socket.socket, address: str) -> None:
        guard = Guard(self.crowd, self._times, self._inner, self.end, stays=self._keeps_strangers)
        leaving = self.crowd.arrive(guard, address)
        self.end(leaving)
        if guard in leaving:
            connection.close()
        else:
            guard.greeting = self._begin(self._greet(guard, connection))

    async def _greet(self, guard: Guard, connection: socket.socket) -> None:
        handshake_s = self._times.head_s if self._tls else None
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: guard, connection, ssl=self._tls, ssl_handshake_timeout=handshake_s
            )
        except OSError:
            # It went away, or speaks no TLS.
            self.crowd.leave(guard)
        finally:
            guard.greeting = None

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _has_visitor(listener: socket.socket) -> bool:
    """True while somebody waits to be let in."""
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    return bool(waiting.poll(0))


async def _listeners(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that the host has; without a host for all of this machine."""
    loop = asyncio.get_running_loop()
    told = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    found: list[socket.socket] = []
    absent: OSError | None = None
    with contextlib.ExitStack() as stack:
        for family, address in dict.fromkeys((each[0], each[4]) for each in told):
            try:
                found.append(_listener(family, address))
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                absent = error
            else:
                stack.callback(found[-1].close)
        if not found:
            raise absent or OSError(errno.EADDRNOTAVAIL, "there is no such address")
        stack.pop_all()
    return found


def _listener(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
