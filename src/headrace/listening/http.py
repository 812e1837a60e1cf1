"""An application of `aiohttp` on an address that anybody can reach. Imports `aiohttp`."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from headrace.listening.crowd import Bounds
from headrace.listening.door import Door
from headrace.listening.guard import Guard, Times

_LINGER_S = 2.0
_BROKEN_OFF = 400


class HttpListener:
    """Serves an application to strangers within bounds, from `start` until `close`."""

    def __init__(
        self,
        application: web.Application,
        *,
        shutdown_s: float,
        bounds: Bounds | None = None,
        times: Times | None = None,
        keeps_strangers: bool = False,
    ) -> None:
        """With `keeps_strangers` those who prove nothing may ask again on the same connection."""
        times = times or Times()
        application.middlewares.append(_within_bounds)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=shutdown_s,
            keepalive_timeout=times.idle_s,
            # Only what ends when its connection does (see `_send`).
            lingering_time=0,
        )
        self.door = Door(self._inner, bounds=bounds or Bounds(), times=times, keeps_strangers=keeps_strangers)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listens, for HTTPS with `tls`; the port, also when 0 was asked for. Raises `OSError`."""
        await self._runner.setup()
        try:
            return await self.door.open(host, port, tls)
        except OSError:
            await self._runner.cleanup()
            raise

    async def close(self) -> None:
        """Takes no more requests, answers those that are there for a while, and ends."""
        await self.door.close()
        await self._runner.cleanup()

    def _inner(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None:
            raise RuntimeError("the server has ended")
        return server()


def guard_of(request: web.BaseRequest) -> Guard | None:
    """The guard of the connection of a request, where it has one."""
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    return protocol if isinstance(protocol, Guard) else None


@web.middleware
async def _within_bounds(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    guard = guard_of(request)
    try:
        response = await handler(request)
    except web.HTTPException as error:
        if guard is not None:
            error.force_close()
            await _send(request, error, guard)
        raise
    except ConnectionError as error:
        # It broke off, or was ended. Strangers are not to fill the log with that, nor memory: the error stays where the
        # traceback refers to it, together with what had come of the body.
        error.with_traceback(None)
        return web.Response(status=_BROKEN_OFF)
    if guard is not None and not guard.is_member:
        if not guard.may_ask_again:
            response.force_close()
        await _send(request, response, guard)
    return response


async def _send(request: web.Request, response: web.StreamResponse, guard: Guard) -> None:
    """Sends all of an answer, for which a stranger has a certain time. What is unread of a request is forgotten."""
    guard.answer(response.content_length or 0)
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        await response.write_eof()
        if not request.content.is_eof():
            await guard.dismiss(_LINGER_S)
        guard.rest()
