"""The lies of the faulty origin: which requests they are told to, and what they do to an answer."""

from __future__ import annotations

import re
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from xml.sax.saxutils import escape


class Lie(Enum):
    """The distortion of an answer."""

    SHORT_BODY = "the promised length, half of the body, then the connection closes"
    WRONG_LENGTH = "a Content-Length of half the body, and all of the body"
    SERVICE_UNAVAILABLE = "503 SlowDown instead of the answer"
    SERVER_ERROR = "500 InternalError instead of the answer"
    SLOW_DRIP = "the body in pieces of 1 KiB, each after `delay_s`"
    HELD = "nothing until `released` is set, then the answer"
    SILENCE = "nothing at all for `delay_s`, then the connection closes"
    CONNECTION_RESET = "a TCP reset instead of an answer"
    RESET_IN_BODY = "a TCP reset after half of the body"
    CHANGED_ETAG = "another ETag in headers and in listings"
    FLIPPED_BYTE = "one byte of the body changed"
    SHIFTED = "the body moved on by one byte, under the right headers"
    ZEROS = "zeros of the right length, under the right headers"
    TRUNCATED_LISTING = "a listing cut off in the middle of its XML"
    LOST_CONTINUATION = "a listing that is truncated but has no continuation token"
    REPEATED_CONTINUATION = "a listing whose continuation token is always the same"
    GARBAGE = "bytes that are no XML"
    RANGE_AS_WHOLE = "200 without Content-Range for a range, as if the part were the object"


@dataclass
class Fault:
    """A lie for the requests that match `method` and the pattern found in `/path?query`; `times` None: for ever.

    `after` requests that match pass before the first lie.
    """

    lie: Lie
    pattern: str = ""
    method: str = "GET"
    times: int | None = None
    after: int = 0
    delay_s: float = 0.1
    done: int = field(default=0, init=False)
    released: threading.Event = field(default_factory=threading.Event, init=False)

    def takes(self, method: str, target: str) -> bool:
        """True when it is this fault's turn; counts. Call with the proxy's lock held."""
        if method != self.method or not re.search(self.pattern, target):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None and self.done >= self.times:
            return False
        self.done += 1
        return True


@dataclass
class Answer:
    """An answer on its way to the client; `length` is what Content-Length says."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    length: int


def _short_length(answer: Answer) -> None:
    answer.length //= 2


def _replace(status: int, code: str) -> Callable[[Answer], None]:
    def change(answer: Answer) -> None:
        answer.status = status
        answer.headers = [("Content-Type", "application/xml")]
        answer.body = f"<Error><Code>{code}</Code><Message>as the test ordered</Message></Error>".encode()
        answer.length = len(answer.body)

    return change


def _change_etag(answer: Answer) -> None:
    answer.headers = [(n, '"changed-by-the-test"' if n.lower() == "etag" else v) for n, v in answer.headers]
    _change_body(rb"<ETag>[^<]*</ETag>", b"<ETag>&#34;changed-by-the-test&#34;</ETag>")(answer)


def _flip_byte(answer: Answer) -> None:
    if answer.body:
        middle = len(answer.body) // 2
        answer.body = answer.body[:middle] + bytes([answer.body[middle] ^ 0x01]) + answer.body[middle + 1 :]


def _shift(answer: Answer) -> None:
    answer.body = answer.body[1:] + answer.body[:1]


def _clear(answer: Answer) -> None:
    answer.body = bytes(len(answer.body))


def _cut(answer: Answer) -> None:
    answer.body = answer.body[: len(answer.body) // 2]
    answer.length = len(answer.body)


def _garbage(answer: Answer) -> None:
    answer.body = b"\x00\xffthis is no XML <<<" * 20
    answer.length = len(answer.body)


def _change_body(pattern: bytes, replacement: bytes) -> Callable[[Answer], None]:
    def change(answer: Answer) -> None:
        # Only listings are XML; an object is left as it is.
        if answer.body.lstrip().startswith(b"<"):
            answer.body = re.sub(pattern, replacement, answer.body)
            answer.length = len(answer.body)

    return change


def _lose_range(answer: Answer) -> None:
    if answer.status == 206:
        answer.status = 200
        answer.headers = [(n, v) for n, v in answer.headers if n.lower() != "content-range"]


def repeat_continuation(target: str, answer: Answer) -> None:
    """Points the next page at the page that was asked for."""
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(target).query)
    token = query.get("continuation-token", [""])[0]
    if token:
        element = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>".encode()
        _change_body(
            rb"<NextContinuationToken>[^<]*</NextContinuationToken>", element.replace(b"\\", rb"\\")
        )(answer)


CHANGES: dict[Lie, Callable[[Answer], None]] = {
    Lie.WRONG_LENGTH: _short_length,
    Lie.SERVICE_UNAVAILABLE: _replace(503, "SlowDown"),
    Lie.SERVER_ERROR: _replace(500, "InternalError"),
    Lie.CHANGED_ETAG: _change_etag,
    Lie.FLIPPED_BYTE: _flip_byte,
    Lie.SHIFTED: _shift,
    Lie.ZEROS: _clear,
    Lie.TRUNCATED_LISTING: _cut,
    Lie.GARBAGE: _garbage,
    Lie.RANGE_AS_WHOLE: _lose_range,
    Lie.LOST_CONTINUATION: _change_body(rb"<NextContinuationToken>[^<]*</NextContinuationToken>", b""),
}
