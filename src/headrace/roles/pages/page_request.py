"""HTTP as far as a few pages need it: one GET on a connection, and its answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

PLAIN = "text/plain; charset=utf-8"
MOST_HEAD_BYTES = 8 << 10
_ENDS = (b"\r\n\r\n", b"\n\n")
_WORDS = 3


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    text: str
    content_type: str = PLAIN


def read_request(received: bytes | bytearray) -> str | Page | None:
    """The path that is asked for, without its query; a page for what is no such request; `None` for half of one."""
    if not any(end in received for end in _ENDS):
        return None
    words = bytes(received).splitlines()[0].split()
    if len(words) != _WORDS or not words[2].startswith(b"HTTP/1."):
        return Page(HTTPStatus.BAD_REQUEST, "that is no request of HTTP/1.1\n")
    if words[0] != b"GET":
        return Page(HTTPStatus.METHOD_NOT_ALLOWED, "there is nothing here but pages to get\n")
    return words[1].partition(b"?")[0].decode("latin-1")


def encoded(page: Page) -> bytes:
    """An answer, after which the connection ends."""
    body = page.text.encode()
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
