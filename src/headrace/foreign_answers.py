"""Answers of processes that somebody else may run: read within bounds of bytes and time, and from nowhere else.

Every process that asks a pod, a master or a worker of a tenant reads its answer here. The answer may be endless, slow,
packed so that it grows when it is unpacked, or lead to another address; none of that costs the asker more than its
bounds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from headrace.errors import EngineError

if TYPE_CHECKING:
    from aiohttp import ClientSession

_PIECE_BYTES = 64 << 10
_UNPACKED = {"Accept-Encoding": "identity"}


class Content(Protocol):
    """The body of an answer, as `aiohttp` has it."""

    def iter_chunked(self, n: int) -> AsyncIterator[bytes]:
        """Its pieces."""


def plain_session(total_s: float) -> ClientSession:
    """A session for one question: no proxy of the environment, no cookies, nothing is unpacked."""
    from aiohttp import ClientSession, ClientTimeout, DummyCookieJar  # noqa: PLC0415 - not of every process

    return ClientSession(
        timeout=ClientTimeout(total=total_s),
        cookie_jar=DummyCookieJar(),
        headers=_UNPACKED,
        auto_decompress=False,
        trust_env=False,
    )


async def ask_plainly(url: str, *, most_bytes: int, timeout_s: float) -> bytes | None:
    """The body that is at this very address; `None` for any answer but a good one that is not packed.

    Raises `EngineError` when it is too large, and what `aiohttp` raises when it breaks off or does not come in time.
    """
    async with plain_session(timeout_s) as session, session.get(url, allow_redirects=False) as answer:
        is_packed = answer.headers.get("Content-Encoding", "identity").lower() != "identity"
        if answer.status != 200 or is_packed:
            return None
        return await bounded(answer.content, most_bytes, f"the answer of {url}")


async def bounded(content: Content, most_bytes: int, what: str) -> bytes:
    """All of a body; raises `EngineError` as soon as it is larger than that. It must not be unpacked on the way."""
    raw = bytearray()
    async for piece in content.iter_chunked(_PIECE_BYTES):
        raw += piece
        if len(raw) > most_bytes:
            raise EngineError.of(f"{what} is larger than {most_bytes} bytes: it is not read")
    return bytes(raw)
