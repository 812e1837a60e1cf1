"""Signatures of requests and answers: who holds a token of the cluster made them, for this place, now, and once.

The token itself never travels. A request is signed over its method, path with query, body, time and nonce; its answer
over the request's nonce, the status, the type and the body, so that no answer fits another request. Format and reasons:
docs/format/control-protocol.md. Pure: time comes in.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pydantic import SecretStr

from headrace.control.rights import Rights, derive

TIME = "Headrace-Time"
NONCE = "Headrace-Nonce"
SIGNATURE = "Headrace-Signature"
DIGEST = "Headrace-Digest"

WINDOW_MS = 30_000
MOST_NONCES = 1_000_000
_NONCE_BYTES = 16
_SCHEME = "v1="
_TIME_SHAPE = re.compile(r"[0-9]{1,16}")
_NONCE_SHAPE = re.compile(r"[!-~]{1,128}")
_SIGNATURE_SHAPE = re.compile(r"v1=[0-9a-f]{64}")


class Verdict(Enum):
    """The verdict on a signed request."""

    GOOD = "good"
    UNSIGNED = "it is not signed"
    FORGED = "its signature is not made with the token of this cluster"
    LATE = "its time is not now: the clocks differ, or it was sent before the master started"
    REPLAYED = "it was seen before"
    FORBIDDEN = "its token is not enough for it"
    CROWDED = "too many requests at this time"


@dataclass(frozen=True)
class SigningKey:
    """The token's key for this protocol alone: another protocol with the same token cannot be made to sign for us."""

    key: bytes

    def __repr__(self) -> str:
        return "SigningKey(**********)"

    @classmethod
    def of(cls, token: SecretStr) -> SigningKey:
        """The key that a token stands for."""
        return cls(hmac.digest(token.get_secret_value().encode(), b"headrace control v1", "sha256"))

    def sign_request(self, method: str, target: str, body: bytes, *, now_ms: int) -> dict[str, str]:
        """The headers that make a request a signed one; `target` is the path with its query, as sent."""
        nonce = secrets.token_hex(_NONCE_BYTES)
        time = str(now_ms)
        digest = body_digest(body)
        signature = self._request(method, target, digest, time, nonce)
        told = {DIGEST: digest} if body else {}
        return {TIME: time, NONCE: nonce, SIGNATURE: _SCHEME + signature, **told}

    def request_is_ours(self, method: str, target: str, digest: str, headers: Mapping[str, str]) -> bool:
        """True when the headers were made with this key for this request, whose body has this digest."""
        wanted = self._request(method, target, digest, headers.get(TIME, ""), headers.get(NONCE, ""))
        return _same(headers.get(SIGNATURE, ""), wanted)

    def sign_answer(self, nonce: str, status: int, digest: str, about: str = "") -> str:
        """The signature of an answer whose body has this digest; `about` is its range and tag, for a part of a file."""
        return _SCHEME + self._mac("headrace-answer-v1", nonce, str(status), digest, about)

    def answer_is_ours(self, given: str, nonce: str, status: int, digest: str, about: str = "") -> bool:
        """True when the signature was made with this key, for the answer to the request with this nonce."""
        return _same(given, self._mac("headrace-answer-v1", nonce, str(status), digest, about))

    def _request(self, method: str, target: str, digest: str, time: str, nonce: str) -> str:
        return self._mac("headrace-request-v1", method, target, digest, time, nonce)

    def _mac(self, *parts: str) -> str:
        # Lengths keep two different lists of parts from being one text.
        text = "".join(f"{len(part.encode())}:{part}\n" for part in parts)
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()


def body_digest(body: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


class Keys:
    """The keys of a cluster's tokens: who signed with which has the rights of that token."""

    def __init__(self, token: SecretStr) -> None:
        # Readers first: most of those who ask are.
        self._keys = {rights: SigningKey.of(derive(token, rights)) for rights in Rights}

    def of(self, rights: Rights) -> SigningKey:
        """The key of those who have these rights and no more."""
        return self._keys[rights]

    def signer(self, method: str, target: str, digest: str, headers: Mapping[str, str]) -> Rights | None:
        """The signer of a request whose body has this digest; `None` when it was nobody of this cluster."""
        found = (
            rights
            for rights, key in self._keys.items()
            if key.request_is_ours(method, target, digest, headers)
        )
        return next(found, None)


class Checked(NamedTuple):
    """The verdict on a request, and its signer."""

    verdict: Verdict
    rights: Rights | None = None


class Verifier:
    """Accepts each signed request once. One from before `started_ms` is refused: its nonce may be known to no one."""

    def __init__(self, keys: Keys, *, started_ms: int, most_nonces: int = MOST_NONCES) -> None:
        self._keys = keys
        self._started_ms = started_ms
        self._most_nonces = most_nonces
        self._seen: set[str] = set()
        self._order: deque[tuple[int, str]] = deque()

    def go_by(self, keys: Keys) -> None:
        """The requests from now on are of those who hold these."""
        self._keys = keys

    def check(
        self, method: str, target: str, digest: str, headers: Mapping[str, str], now_ms: int
    ) -> Checked:
        """The verdict on this request, whose body has this digest, or is to have it; a good one is remembered."""
        if not all(name in headers for name in (TIME, NONCE, SIGNATURE)):
            return Checked(Verdict.UNSIGNED)
        rights = self._keys.signer(method, target, digest, headers)
        if rights is None:
            return Checked(Verdict.FORGED)
        return Checked(self._freshness(headers, now_ms), rights)

    def _freshness(self, headers: Mapping[str, str], now_ms: int) -> Verdict:
        sent_ms = _number(headers[TIME])
        if sent_ms is None or abs(now_ms - sent_ms) > WINDOW_MS or sent_ms < self._started_ms:
            return Verdict.LATE
        return self._remember(headers[NONCE], now_ms)

    def _remember(self, nonce: str, now_ms: int) -> Verdict:
        # A request from a clock that is ahead stays acceptable for two windows.
        while self._order and self._order[0][0] < now_ms - 2 * WINDOW_MS:
            self._seen.discard(self._order.popleft()[1])
        if nonce in self._seen:
            return Verdict.REPLAYED
        if len(self._seen) >= self._most_nonces:
            return Verdict.CROWDED
        self._seen.add(nonce)
        self._order.append((now_ms, nonce))
        return Verdict.GOOD


def is_plausible(headers: Mapping[str, str]) -> bool:
    """True when a request looks like a signed one: worth reading its body, if it does not tell the digest of that."""
    shapes = ((TIME, _TIME_SHAPE), (NONCE, _NONCE_SHAPE), (SIGNATURE, _SIGNATURE_SHAPE))
    return all(shape.fullmatch(headers.get(name, "")) for name, shape in shapes)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), f"{_SCHEME}{wanted}".encode())


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 16 else None
