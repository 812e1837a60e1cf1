"""The master's HTTP API: signatures checked, bounded bodies in, signed answers out. Decides nothing itself.

A body is read once its request is known to be a member's. An older member, which does not tell the body's digest in a
header, has the bounds of strangers meanwhile (`headrace.listening`).

`/metrics`, `/healthz` and `/` need no signature and hold no name; `/v1/status` without one tells numbers alone.
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
from headrace.control.renewed_files import renewed_token
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
    is_plausible,
)
from headrace.errors import ConfigError, HeadraceError
from headrace.listening.crowd import Bounds
from headrace.listening.door import Door
from headrace.listening.guard import Times
from headrace.listening.http import HttpListener, guard_of

_log = logging.getLogger("headrace.master")

LARGEST_BODY_BYTES = 16 << 20
"""Of any request: an order with the paths of a load."""
SMALL_BODY_BYTES = 4 << 10
_BODY_S = 60.0
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
    most_body_bytes: int = SMALL_BODY_BYTES
    for_strangers: Callable[[Call], Awaitable[Reply | FileReply]] | None = None
    """The answer to a request that is not signed at all; without it, such a request is refused."""


class Server:
    """Serves endpoints on one address until it is closed."""

    def __init__(
        self,
        endpoints: list[Endpoint],
        token: SecretStr,
        *,
        token_file: Path | None = None,
        bounds: Bounds | None = None,
        times: Times | None = None,
    ) -> None:
        self._token = renewed_token(token, token_file, Rights.ADMINISTRATOR)
        self._keys = {token: Keys(token)}
        self._verifier = Verifier(self._keys[token], started_ms=_now_ms())
        self.requests: Counter[tuple[str, int]] = Counter()
        self.refused: Counter[Verdict] = Counter()
        self._application = web.Application(client_max_size=LARGEST_BODY_BYTES)
        for endpoint in endpoints:
            self._application.router.add_route(endpoint.method, endpoint.path, self._handler(endpoint))
        self._listener = HttpListener(self._application, shutdown_s=2.0, bounds=bounds, times=times)

    @property
    def door(self) -> Door:
        """The door that connections come through."""
        return self._listener.door

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listens, for HTTPS with `tls`; the port, also when 0 was asked for. Raises `ConfigError`."""
        try:
            return await self._listener.start(host, port, tls)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError.of(
                f"cannot listen on {host}:{port}: {reason}",
                hint="end what listens there, or give another `listen`",
            ) from None

    async def close(self) -> None:
        """Ends the connections."""
        await self._listener.close()

    def _handler(self, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            status = 500
            try:
                response = await self._asked(endpoint, request)
                status = response.status
            except web.HTTPException as error:
                status = error.status
                raise
            finally:
                self.requests[endpoint.path, status] += 1
            return response

        return handle

    async def _asked(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        if endpoint.needs is None:
            return await self._open(endpoint, request)
        if endpoint.for_strangers is not None and SIGNATURE not in request.headers:
            return await self._open(endpoint, request)
        return await self._signed(endpoint, request, endpoint.needs)

    async def _open(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        reply = await _answer(endpoint, endpoint.for_strangers or endpoint.answer, _call(request, b""))
        if isinstance(reply, FileReply):
            raise TypeError("a file is only served signed")
        return _response(reply)

    async def _signed(self, endpoint: Endpoint, request: web.Request, needs: Rights) -> web.StreamResponse:
        headers = request.headers
        if not is_plausible(headers):
            return self._refuse(Verdict.UNSIGNED)
        body = b"" if DIGEST in headers else await _read(request, endpoint.most_body_bytes)
        digest = headers.get(DIGEST) or body_digest(body)
        keys = self._keys_of(request, digest)
        self._verifier.go_by(keys)
        verdict, rights = self._verifier.check(request.method, request.path_qs, digest, headers, _now_ms())
        if rights is None:
            return self._refuse(verdict)
        # What was signed once is no secret: sent again, or late, it proves nothing about who sends it now.
        if verdict is Verdict.GOOD and (guard := guard_of(request)) is not None:
            guard.prove()
        signing = _Signing(keys.of(rights), headers[NONCE])
        if verdict is not Verdict.GOOD or rights < needs:
            return self._turn_away(verdict, rights, needs, signing)
        if DIGEST in headers:
            body = await _read(request, endpoint.most_body_bytes)
            if body_digest(body) != digest:
                return self._refuse(Verdict.FORGED)
        reply = await _answer(endpoint, endpoint.answer, _call(request, body))
        if isinstance(reply, FileReply):
            return await _send_file(request, reply, signing)
        return signing.response(reply)

    def _turn_away(
        self, verdict: Verdict, rights: Rights, needs: Rights, signing: _Signing
    ) -> web.StreamResponse:
        """Tells a member why its request is not carried out."""
        if verdict is Verdict.GOOD:
            self.refused[Verdict.FORBIDDEN] += 1
            return signing.response(_fault(too_little(rights, needs)))
        self.refused[verdict] += 1
        # The asker holds a token, so it may learn our time, and correct its own by it.
        told = {"Headrace-Verdict": verdict.name.lower()}
        return signing.response(Reply(str(_now_ms()).encode(), "text/plain", 401, told))

    def _keys_of(self, request: web.Request, digest: str) -> Keys:
        """Those that the request was signed with; the newest for a request of a stranger."""
        tokens = self._token.in_force()
        self._keys = {token: self._keys.get(token) or Keys(token) for token in tokens}
        newest, *others = (self._keys[token] for token in tokens)
        words = (request.method, request.path_qs, digest, request.headers)
        if not others or newest.signer(*words) is not None:
            return newest
        return next((keys for keys in others if keys.signer(*words) is not None), newest)

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


async def _read(request: web.Request, most_bytes: int) -> bytes:
    """The body. Raises what becomes an answer when it is too large, or does not come in time."""
    if (request.content_length or 0) > most_bytes:
        raise web.HTTPRequestEntityTooLarge(most_bytes, request.content_length or 0)
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > most_bytes:
                    raise web.HTTPRequestEntityTooLarge(most_bytes, len(body))
        return bytes(body)
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    finally:
        # Of a request that broke off this would live on with the traceback of its error.
        body.clear()


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


async def _answer(
    endpoint: Endpoint, answer: Callable[[Call], Awaitable[Reply | FileReply]], call: Call
) -> Reply | FileReply:
    try:
        return await answer(call)
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
