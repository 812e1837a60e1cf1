"""The supervisor's HTTP API on a Unix socket: who asks is checked, bodies are bounded, faults become answers.

Decides nothing itself. docs/format/local-api.md describes what is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

# Before `aiohttp` itself, which takes longer.
import headrace.control.quick_aiohttp  # noqa: F401

# isort: split
from aiohttp import web
from pydantic import BaseModel

from headrace.control.http_call import Call
from headrace.errors import HeadraceError
from headrace.local.layout import BackendLayout
from headrace.local.protocol.messages import Fault
from headrace.local.server.peer_credentials import may_ask, user_of

_log = logging.getLogger("headrace.local")

LARGEST_BODY_BYTES = 64 << 20
_JSON = "application/json"
_LINES = "application/x-ndjson"
_STATUS_OF_KIND = {"Config": 400, "PermissionDenied": 403, "NotFound": 404, "Busy": 409, "NoSpace": 507}


Answerer = Callable[[Call], Awaitable[BaseModel]]
Streamer = Callable[[Call], AsyncIterator[bytes]]


@dataclass(frozen=True)
class Endpoint:
    """One method of one path, answered at once or line by line."""

    method: str
    path: str
    answer: Answerer | None = None
    stream: Streamer | None = None


class Server:
    """Serves endpoints on one socket until it is closed."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self._application = web.Application(client_max_size=LARGEST_BODY_BYTES)
        for endpoint in endpoints:
            self._application.router.add_route(endpoint.method, endpoint.path, _handler(endpoint))
        self._runner = web.AppRunner(
            self._application, access_log=None, handle_signals=False, shutdown_timeout=1.0
        )

    async def start(self, layout: BackendLayout) -> None:
        """Listens. The holder of the lock may take away the socket of a predecessor."""
        path = layout.socket
        path.unlink(missing_ok=True)
        await self._runner.setup()
        before = os.umask(0o177)
        try:
            await web.UnixSite(self._runner, str(path)).start()
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Ends the connections."""
        await self._runner.cleanup()


def _handler(endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        if not _is_allowed(request):
            return _fault_response(Fault(kind="PermissionDenied", message="this backend is another user's"))
        try:
            call = Call(dict(request.query), await request.read())
            if endpoint.stream is not None:
                return await _streamed(request, endpoint.stream(call))
            if endpoint.answer is not None:
                return _response((await endpoint.answer(call)).model_dump_json().encode())
        except HeadraceError as error:
            return _fault_response(Fault.of(error))
        except (web.HTTPException, ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            _log.exception("supervisor: %s %s failed", endpoint.method, endpoint.path)
        return _fault_response(Fault(message="the supervisor met a fault of its own; its log says which"))

    return handle


def _is_allowed(request: web.Request) -> bool:
    connection = request.transport.get_extra_info("socket") if request.transport else None
    return connection is not None and may_ask(user_of(connection))


async def _streamed(request: web.Request, lines: AsyncIterator[bytes]) -> web.StreamResponse:
    """Sends what comes until it ends or the asker is gone. The first piece decides whether it is a fault."""
    response = web.StreamResponse(headers={"Content-Type": _LINES, "Cache-Control": "no-store"})
    first = await anext(lines, None)
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        if first is not None:
            await response.write(first)
            async for line in lines:
                await response.write(line)
        await response.write_eof()
    return response


def _response(body: bytes, status: int = 200) -> web.Response:
    return web.Response(
        body=body,
        status=status,
        content_type=_JSON,
        headers={"Cache-Control": "no-store", "Server": "headrace"},
    )


def _fault_response(fault: Fault) -> web.Response:
    return _response(fault.model_dump_json().encode(), _STATUS_OF_KIND.get(fault.kind, 500))
