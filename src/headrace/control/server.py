"""The master's HTTP API: bounded bodies in, signatures checked, signed answers out. Decides nothing itself.

Reads of what the master knows (`/v1/status`, `/metrics`, `/healthz`, `/`) need no signature and hold no secret.
Everything else is signed both ways, and for those alone whose token allows it: docs/format/control-protocol.md.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

# Before `aiohttp` itself, which takes longer.
import headrace.control.quick_aiohttp  # noqa: F401

# isort: split
from aiohttp import web
from pydantic import BaseModel, SecretStr

from headrace.control.http_call import Call
from headrace.control.messages import Fault
from headrace.control.rights import Rights, too_little
from headrace.control.signing import (
    DIGEST,
    NONCE,
    SIGNATURE,
    Keys,
    SigningKey,
    Verdict,
    Verifier,
    body_digest,
)
from headrace.errors import ConfigError, HeadraceError

_log = logging.getLogger("headrace.master")

LARGEST_BODY_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20
_JSON = "application/json"
_STATUS_OF_KIND = {
    "Config": 400,
    "PermissionDenied": 403,
    "NotFound": 404,
    "Busy": 409,
    "Unsupported": 501,
    "Unreachable": 502,
    "Throttled": 503,
    "Timeout": 504,
    "NoSpace": 507,
}


@dataclass(frozen=True)
class Reply:
    """An answer: bytes of a type."""

    body: bytes
    content_type: str = _JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, message: BaseModel, status: int = 200) -> Reply:
        """A message as JSON."""
        return cls(message.model_dump_json().encode(), status=status)


@dataclass(frozen=True)
class FileReply:
    """A file from an offset on; `digest` is that of the whole file, `tag` names it."""

    path: Path
    offset: int
    size_bytes: int
    digest: str
    tag: str


@dataclass(frozen=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    answer: Callable[[Call], Awaitable[Reply | FileReply]]
    needs: Rights | None
    """Who may ask; `None`: anybody, without a signature."""


class Server:
    """Serves endpoints on one address until it is closed."""

    def __init__(self, endpoints: list[Endpoint], token: SecretStr) -> None:
        self._keys = Keys(token)
        self._verifier = Verifier(self._keys, started_ms=_now_ms())
        self.requests: Counter[tuple[str, int]] = Counter()
        self.refused: Counter[Verdict] = Counter()
        self._application = web.Application(client_max_size=LARGEST_BODY_BYTES)
        for endpoint in endpoints:
            self._application.router.add_route(endpoint.method, endpoint.path, self._handler(endpoint))
        self._runner = web.AppRunner(
            self._application, access_log=None, handle_signals=False, shutdown_timeout=2.0
        )

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listens, for HTTPS with `tls`; the port, also when 0 was asked for. Raises `ConfigError`."""
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, host or None, port, ssl_context=tls, backlog=4096, reuse_address=True
        )
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            reason = error.strerror or str(error)
            raise ConfigError.of(
                f"cannot listen on {host}:{port}: {reason}",
                hint="end what listens there, or give another `listen`",
            ) from None
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Ends the connections."""
        await self._runner.cleanup()

    def _handler(self, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            status = 500
            try:
                answer = self._open if endpoint.needs is None else self._signed
                response = await answer(endpoint, request)
                status = response.status
            except web.HTTPException as error:
                status = error.status
                raise
            finally:
                self.requests[endpoint.path, status] += 1
            return response

        return handle

    async def _open(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        reply = await _answer(endpoint, _call(request, b""))
        if isinstance(reply, FileReply):
            raise TypeError("a file is only served signed")
        return _response(reply)

    async def _signed(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        if NONCE not in request.headers or SIGNATURE not in request.headers:
            return self._refuse(Verdict.UNSIGNED)
        body = await request.read()
        headers = request.headers
        verdict, rights = self._verifier.check(request.method, request.path_qs, body, headers, _now_ms())
        if rights is None:
            return self._refuse(verdict)
        signing = _Signing(self._keys.of(rights), headers[NONCE])
        if verdict is not Verdict.GOOD:
            self.refused[verdict] += 1
            # The asker holds a token, so it may learn our time, and correct its own by it.
            told = {"Headrace-Verdict": verdict.name.lower()}
            return signing.response(Reply(str(_now_ms()).encode(), "text/plain", 401, told))
        if endpoint.needs is not None and rights < endpoint.needs:
            self.refused[Verdict.FORBIDDEN] += 1
            return signing.response(_fault(too_little(rights, endpoint.needs)))
        reply = await _answer(endpoint, _call(request, body))
        if isinstance(reply, FileReply):
            return await _send_file(request, reply, signing)
        return signing.response(reply)

    def _refuse(self, verdict: Verdict) -> web.StreamResponse:
        self.refused[verdict] += 1
        fault = Fault(kind="PermissionDenied", message=f"the request is refused: {verdict.value}")
        return _response(Reply.of(fault, status=401))


@dataclass(frozen=True)
class _Signing:
    """Signs the answer to one request, by the key of who asked."""

    key: SigningKey
    nonce: str

    def response(self, reply: Reply) -> web.Response:
        response = _response(reply)
        digest = body_digest(reply.body)
        response.headers[SIGNATURE] = self.key.sign_answer(self.nonce, reply.status, digest)
        return response

    def of_file(self, reply: FileReply) -> str:
        about = f"{reply.tag} {reply.offset} {reply.size_bytes}"
        return self.key.sign_answer(self.nonce, 200, reply.digest, about)


async def _send_file(request: web.Request, reply: FileReply, signing: _Signing) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"Content-Type": "application/octet-stream", "ETag": f'"{reply.tag}"'}
    )
    response.headers[DIGEST] = reply.digest
    response.headers[SIGNATURE] = signing.of_file(reply)
    response.content_length = reply.size_bytes - reply.offset
    _harden(response)
    with reply.path.open("rb") as file:
        file.seek(reply.offset)
        await response.prepare(request)
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            await response.write(piece)
    await response.write_eof()
    return response


async def _answer(endpoint: Endpoint, call: Call) -> Reply | FileReply:
    try:
        return await endpoint.answer(call)
    except HeadraceError as error:
        return _fault(error)
    except Exception:
        _log.exception("master: %s %s failed", endpoint.method, endpoint.path)
        return Reply.of(Fault(message="the master met a fault of its own; its log says which"), status=500)


def _fault(error: HeadraceError) -> Reply:
    fault = Fault(kind=error.kind, message=error.message[:2000], hint=error.hint and error.hint[:2000])
    return Reply.of(fault, status=_STATUS_OF_KIND.get(error.kind, 500))


def _call(request: web.Request, body: bytes) -> Call:
    return Call(dict(request.query), body, dict(request.match_info))


def _response(reply: Reply) -> web.Response:
    headers = {"Content-Type": reply.content_type, **reply.headers}
    response = web.Response(body=reply.body, status=reply.status, headers=headers)
    _harden(response)
    return response


def _harden(response: web.StreamResponse) -> None:
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
    response.headers["Server"] = "headrace"


def _now_ms() -> int:
    return int(time.time() * 1000)
