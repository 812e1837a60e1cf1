"""Questions of workers, mounts, loads and the command line to the master: signed, with answers that are checked.

Every fault comes as an error of `headrace.errors`. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

# Before `aiohttp` itself, which takes longer.
import headrace.control.quick_aiohttp  # noqa: F401

# isort: split
import aiohttp
from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter, ValidationError
from yarl import URL

from headrace.control.messages import (
    PIN_BYTES,
    ClusterReport,
    DrainOrder,
    Fault,
    Heartbeat,
    HeartbeatAnswer,
    LoadOrder,
    LoadReport,
    Message,
    MountHeartbeat,
    Outlook,
    Pins,
    PinsPage,
    Refreshed,
)
from headrace.control.outlooks import carried_on, epoch_of
from headrace.control.renewed_files import Renewed, renewed_token
from headrace.control.rights import Rights
from headrace.control.signing import DIGEST, NONCE, SIGNATURE, SigningKey, body_digest
from headrace.control.tls import renewed_client_context
from headrace.errors import (
    CLASSES,
    DeadlineError,
    EngineError,
    HeadraceError,
    MissingFileError,
    OriginUnreachableError,
    RefusedError,
)
from headrace.foreign_answers import bounded

_M = TypeVar("_M", bound=BaseModel)
_A = TypeVar("_A")
_LOADS: TypeAdapter[list[LoadReport]] = TypeAdapter(list[LoadReport], config=ConfigDict(defer_build=True))
_STATUS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any], config=ConfigDict(defer_build=True))
Query = dict[str, int | str]
_LARGEST_ANSWER_BYTES = 1 << 20
_LARGER_ANSWERS_BYTES = {
    "/v1/heartbeat": 16 << 20,  # a view of all workers, as the two that follow
    "/v1/mounts": 16 << 20,
    "/v1/view": 16 << 20,
    "/v1/pins": 16 << 20,
    "/v1/loads": 64 << 20,  # all loads, each with the paths that it was given
    "/v1/status": 32 << 20,
}
_PIECE_BYTES = 1 << 20
_CONNECT_S = 5.0
_ANSWER_S = 15.0
_LONG_S = 24 * 3600.0
_LOAD_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True)
class _Question:
    """A signed request. `may_be_unsigned`: earlier masters answer it without a signature."""

    method: str
    url: URL
    body: bytes
    timeout_s: float
    may_be_unsigned: bool


class ControlClient:
    """One connection to a master. Without a token only what needs no signature can be asked.

    Of a master at an `https://` address it believes the authorities of this machine, and that of the file `authority`.
    That file, and the `token_file` that the token came from, are read again when they change. A client of foreign
    masters limits the length of their answers by `most_bytes`.
    """

    def __init__(
        self,
        master: str,
        token: SecretStr | None,
        *,
        authority: Path | None = None,
        most_bytes: int | None = None,
        token_file: Path | None = None,
    ) -> None:
        self.master = master
        self._most_bytes = most_bytes
        self._authority = authority
        self._tls: Renewed[ssl.SSLContext] | None = None
        self._token = renewed_token(token, token_file, Rights.READER) if token else None
        self._ahead_ms = 0
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        if self.master.startswith("https://"):
            self._tls = renewed_client_context(self._authority)
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            trust_env=False,
            headers={"Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Reports for a worker."""
        return await self._message("POST", "/v1/heartbeat", HeartbeatAnswer, beat)

    async def mount_heartbeat(self, beat: MountHeartbeat) -> HeartbeatAnswer:
        """Reports for a mount."""
        return await self._message("POST", "/v1/mounts", HeartbeatAnswer, beat)

    async def outlook(
        self, *, after_epoch: int = 0, after_snapshot: str = "", wait_s: float = 0.0
    ) -> Outlook:
        """View and snapshot; waits up to `wait_s` for others than those (epoch and tag) that the asker has."""
        query: Query = {"after": after_epoch, "snapshot": after_snapshot, "wait_ms": int(wait_s * 1000)}
        return await self._message("GET", "/v1/view", Outlook, query=query, timeout_s=wait_s + _ANSWER_S)

    async def outlook_after(self, known: Outlook | None) -> Outlook:
        """The outlook of the asker that knew this one: the master's, with the known view where it has none."""
        told = await self.outlook(after_epoch=epoch_of(known))
        if told.view is None and known is not None and told.cluster != known.cluster:
            told = await self.outlook()
        return carried_on(told, known)

    async def pins(self) -> Pins:
        """The pinned files, page by page."""
        found, version = bytearray(), 0
        while True:
            query: Query = {"from": len(found) // PIN_BYTES}
            page = await self._message("GET", "/v1/pins", PinsPage, query=query)
            if found and page.version != version:
                # Others are pinned now.
                found.clear()
                continue
            version = page.version
            found += bytes.fromhex(page.digits or "".join(page.ids))
            if not page.digits or len(found) >= page.total * PIN_BYTES:
                return Pins(version=version, ids=bytes(found))

    async def refresh(self) -> Refreshed:
        """Orders a new snapshot, and waits for it."""
        return await self._message("POST", "/v1/refresh", Refreshed, timeout_s=_LONG_S)

    async def drain(self, worker: str, *, cancel: bool = False) -> None:
        """Orders a worker to hand its blocks over and to end, or to stay."""
        await self._message("POST", "/v1/drain", Message, DrainOrder(id=worker, cancel=cancel))

    async def start_load(self, order: LoadOrder) -> LoadReport:
        """Starts a load."""
        return await self._message("POST", "/v1/loads", LoadReport, order, timeout_s=60.0)

    async def loads(self) -> list[LoadReport]:
        """All loads, newest first."""
        return _LOADS.validate_json(await self._signed("GET", "/v1/loads"))

    async def load(self, load_id: str) -> LoadReport:
        """One load."""
        return await self._message("GET", _load_path(load_id), LoadReport)

    async def cancel_load(self, load_id: str) -> LoadReport:
        """Stops a load; what is in stays in."""
        return await self._message("DELETE", _load_path(load_id), LoadReport, timeout_s=30.0)

    async def report(self) -> ClusterReport:
        """The report that the planner needs, in a form that is checked in all its parts."""
        return await self._message("GET", "/v1/report", ClusterReport)

    async def status(self) -> dict[str, Any]:
        """The whole cluster; without a token its numbers alone.

        Masters of earlier versions sign no status, and tell all of it to everybody.
        """
        path = "/v1/status"
        raw = await (self._signed("GET", path, may_be_unsigned=True) if self._token else self._open(path))
        try:
            return _STATUS.validate_json(raw)
        except ValidationError:
            raise self._stranger(200) from None

    async def copy_snapshot(
        self, version: int, offset: int, size_bytes: int, write: Callable[[bytes], object]
    ) -> str:
        """Gives a snapshot from `offset` on, piece by piece, to `write` (called in threads); the digest of the whole.

        Raises when it breaks off; what came until then, came.
        """
        url = self._url("/v1/snapshot", {"version": version, "offset": offset})
        return await self._with_each_key(lambda key: self._copy_snapshot(key, url, offset, size_bytes, write))

    # --- inside ---

    async def _copy_snapshot(
        self, key: SigningKey, url: URL, offset: int, size_bytes: int, write: Callable[[bytes], object]
    ) -> str:
        headers = self._sign(key, "GET", url, b"")
        try:
            async with self._request("GET", url, headers, b"", _LONG_S) as answer:
                digest = await self._check_file(key, answer, headers[NONCE], offset, size_bytes)
                left = size_bytes - offset
                async for piece in answer.content.iter_chunked(_PIECE_BYTES):
                    if len(piece) > left:
                        raise EngineError.of(f"the master at {self.master} sends more than its snapshot has")
                    left -= len(piece)
                    await asyncio.to_thread(write, piece)
                return digest
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from None

    async def _message(
        self,
        method: str,
        path: str,
        model: type[_M],
        message: BaseModel | None = None,
        *,
        query: Query | None = None,
        timeout_s: float = _ANSWER_S,
    ) -> _M:
        body = message.model_dump_json().encode() if message is not None else b""
        raw = await self._signed(method, path, body, query=query, timeout_s=timeout_s)
        try:
            return model.model_validate_json(raw)
        except ValidationError:
            raise EngineError.of(
                f"the master's answer to {method} {path} cannot be understood",
                hint="master and this process may be of versions too far apart",
            ) from None

    async def _open(self, path: str) -> bytes:
        """The body of a good answer to a question that is not signed."""
        try:
            async with self._request("GET", self._url(path, None), {}, b"", _ANSWER_S) as answer:
                if answer.status != 200:
                    raise self._stranger(answer.status)
                return await self._body(answer, path)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, HeadraceError):
                raise
            raise self._unreachable(error) from None

    async def _signed(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: Query | None = None,
        timeout_s: float = _ANSWER_S,
        may_be_unsigned: bool = False,
    ) -> bytes:
        """The body of a good answer. A clock that differs from the master's is allowed for by a second try."""
        question = _Question(method, self._url(path, query), body, timeout_s, may_be_unsigned)
        return await self._with_each_key(lambda key: self._signed_with(key, question))

    async def _with_each_key(self, ask: Callable[[SigningKey], Awaitable[_A]]) -> _A:
        """Asks with the newest token; where it is refused, with the one before: the master may not have the new one."""
        tokens = self._token.in_force() if self._token else ()
        if not tokens:
            raise RefusedError.of(
                "this needs the token of the cluster",
                hint="give --token-file, or set HEADRACE_TOKEN_FILE or HEADRACE_TOKEN",
            )
        newest, *others = (SigningKey.of(token) for token in tokens)
        try:
            return await ask(newest)
        except RefusedError:
            for key in others:
                with contextlib.suppress(RefusedError):
                    return await ask(key)
            raise

    async def _signed_with(self, key: SigningKey, question: _Question) -> bytes:
        for _ in range(2):
            status, verdict, answer = await self._once(key, question)
            if status < 400:
                return answer
            if verdict is None:
                raise _fault(answer)
            if verdict != "late":
                raise RefusedError.of(f"the master refused the request: {verdict}", hint="try again")
            self._ahead_ms = int(answer) - _now_ms()
        raise RefusedError.of("the master's clock differs from this one's, and runs unsteadily")

    async def _once(self, key: SigningKey, asked: _Question) -> tuple[int, str | None, bytes]:
        headers = self._sign(key, asked.method, asked.url, asked.body)
        try:
            async with self._request(asked.method, asked.url, headers, asked.body, asked.timeout_s) as answer:
                raw = await self._body(answer, asked.url.path)
                signature = answer.headers.get(SIGNATURE, "")
                is_ours = key.answer_is_ours(signature, headers[NONCE], answer.status, body_digest(raw))
                is_older = asked.may_be_unsigned and not signature and answer.status == 200
                self._check(is_ours or is_older, answer.status)
                return answer.status, answer.headers.get("Headrace-Verdict"), raw
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, HeadraceError):
                raise
            raise self._unreachable(error) from None

    def _sign(self, key: SigningKey, method: str, url: URL, body: bytes) -> dict[str, str]:
        """The headers of a signed request."""
        return key.sign_request(method, url.raw_path_qs, body, now_ms=_now_ms() + self._ahead_ms)

    def _check(self, is_ours: bool, status: int) -> None:
        """Raises `RefusedError` unless who answered holds the token, too."""
        if is_ours:
            return
        if status in (401, 403):
            raise RefusedError.of(
                f"the master at {self.master} does not accept the token",
                hint="use the file `token` of the master's state folder, or what `headrace token` makes of it "
                "(which masters of earlier versions do not know)",
            )
        raise self._stranger(status)

    async def _check_file(
        self, key: SigningKey, answer: aiohttp.ClientResponse, nonce: str, offset: int, size_bytes: int
    ) -> str:
        signature = answer.headers.get(SIGNATURE, "")
        if answer.status != 200:
            raw = await self._body(answer, "/v1/snapshot")
            self._check(key.answer_is_ours(signature, nonce, answer.status, body_digest(raw)), answer.status)
            raise _fault(raw)
        digest = answer.headers.get(DIGEST, "")
        tag = answer.headers.get("ETag", "").strip('"')
        about = f"{tag} {offset} {size_bytes}"
        self._check(key.answer_is_ours(signature, nonce, 200, digest, about), 200)
        return digest

    async def _body(self, answer: aiohttp.ClientResponse, path: str) -> bytes:
        """All of it, unless it is larger than an answer of this endpoint may be."""
        most = _LARGER_ANSWERS_BYTES.get(path, _LARGEST_ANSWER_BYTES)
        if path.startswith("/v1/loads/"):
            most = _LARGER_ANSWERS_BYTES["/v1/loads"]
        most = most if self._most_bytes is None else min(most, self._most_bytes)
        return await bounded(answer.content, most, f"the answer of the master at {self.master}")

    def _url(self, path: str, query: Query | None) -> URL:
        return URL(f"{self.master}{path}").with_query(query or {})

    def _request(
        self, method: str, url: URL, headers: dict[str, str], body: bytes, timeout_s: float
    ) -> aiohttp.client._RequestContextManager:
        if self._session is None:
            raise ValueError("the client is not open")
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S)
        return self._session.request(
            method,
            url,
            data=io.BytesIO(body) if body else None,
            headers=headers,
            timeout=timeout,
            ssl=self._tls.newest() if self._tls else True,
            allow_redirects=False,
        )

    def _stranger(self, status: int) -> RefusedError:
        return RefusedError.of(
            f"the response from {self.master} (status {status}) is not from the master of this cluster",
            hint="check the address and the token",
        )

    def _unreachable(self, error: BaseException) -> HeadraceError:
        if isinstance(error, TimeoutError):
            return DeadlineError.of(f"the master at {self.master} does not answer in time")
        if isinstance(error, aiohttp.ClientSSLError):
            return OriginUnreachableError.of(
                f"no TLS with the master at {self.master}: {_tls_reason(error)}",
                hint="set the `tls.authority` of the process, or SSL_CERT_FILE for a command, to the authority that "
                "signed the master's certificate; a master without `https` is at an http:// address",
            )
        number = getattr(getattr(error, "os_error", error), "errno", None)
        reason = os.strerror(number) if isinstance(number, int) and number > 0 else type(error).__name__
        return OriginUnreachableError.of(
            f"cannot reach the master at {self.master}: {reason}",
            hint="check that `headrace master` runs there; reads go on without it",
        )


def _tls_reason(error: aiohttp.ClientSSLError) -> str:
    cause = getattr(error, "certificate_error", None) or error.__cause__
    return getattr(cause, "verify_message", "") or getattr(cause, "reason", None) or type(error).__name__


def _load_path(load_id: str) -> str:
    """The place of a load. Raises `MissingFileError` for what no load is called, which could lead elsewhere."""
    if not _LOAD_ID.fullmatch(load_id):
        hint = "`headrace status --cluster URL` shows the last ones"
        raise MissingFileError.of("there is no load of this name", hint=hint)
    return f"/v1/loads/{load_id}"


def _fault(raw: bytes) -> HeadraceError:
    try:
        fault = Fault.model_validate_json(raw)
    except ValidationError:
        fault = Fault(message="the master refused the request")
    return CLASSES.get(fault.kind, EngineError).of(fault.message, hint=fault.hint)


def _now_ms() -> int:
    return int(time.time() * 1000)
