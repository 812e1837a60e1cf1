"""Signatures: who holds the token, for this request, now, and once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from headrace.control.rights import Rights, derive
from headrace.control.signing import (
    DIGEST,
    NONCE,
    SIGNATURE,
    TIME,
    WINDOW_MS,
    Keys,
    SigningKey,
    Verdict,
    Verifier,
    body_digest,
    is_plausible,
)

TOKEN = SecretStr("planted-token-0123456789abcdef")
KEY, KEYS = SigningKey.of(TOKEN), Keys(TOKEN)
NOW_MS = 1_800_000_000_000
DIGEST_OF_BODY = body_digest(b"{}")


def verifier(**changed: int) -> Verifier:
    return Verifier(KEYS, **{"started_ms": NOW_MS - 60_000, **changed})


def signed(body: bytes = b"{}", now_ms: int = NOW_MS, key: SigningKey = KEY) -> dict[str, str]:
    return key.sign_request("POST", "/v1/drain?x=1", body, now_ms=now_ms)


def test_signed_request_is_good_once() -> None:
    checks, headers = verifier(), signed()
    assert checks.check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, headers, NOW_MS).verdict is Verdict.GOOD
    assert (
        checks.check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, headers, NOW_MS + 5).verdict is Verdict.REPLAYED
    )


def test_a_replay_is_refused_as_long_as_its_time_is_good() -> None:
    """The asker's clock may be ahead by a window: its request stays fresh for two."""
    checks, headers = verifier(), signed(now_ms=NOW_MS + WINDOW_MS)
    assert checks.check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, headers, NOW_MS).verdict is Verdict.GOOD
    for later_ms in range(0, 4 * WINDOW_MS, 1000):
        verdict = checks.check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, headers, NOW_MS + later_ms).verdict
        assert verdict in (Verdict.REPLAYED, Verdict.LATE)


@given(st.sampled_from(["method", "target", "body", TIME, NONCE, SIGNATURE]), st.data())
def test_any_change_is_noticed(part: str, data: st.DataObject) -> None:
    request = {"method": "POST", "target": "/v1/drain?x=1", "body": b"{}", **signed()}
    other = data.draw(st.binary(max_size=30) if part == "body" else st.text(max_size=80))
    changed = {**request, part: other}
    if changed == request:
        return
    headers = {name: changed[name] for name in (TIME, NONCE, SIGNATURE)}
    checks = verifier()
    assert (
        checks.check(
            changed["method"], changed["target"], body_digest(changed["body"]), headers, NOW_MS
        ).verdict
        is Verdict.FORGED
    )
    # What was forged leaves no trace: the true one still counts.
    true = {name: request[name] for name in (TIME, NONCE, SIGNATURE)}
    assert checks.check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, true, NOW_MS).verdict is Verdict.GOOD


def test_the_digest_of_a_body_is_told_before_the_body() -> None:
    assert signed()[DIGEST] == DIGEST_OF_BODY
    assert DIGEST not in signed(b"")


@pytest.mark.parametrize(
    "change", [{TIME: "now"}, {TIME: "1" * 17}, {NONCE: ""}, {NONCE: "n" * 129}, {SIGNATURE: "v1=00"}]
)
def test_what_cannot_be_a_signed_request_is_seen_by_its_headers(change: dict[str, str]) -> None:
    assert is_plausible(signed())
    assert not is_plausible({**signed(), **change})


def test_parts_cannot_be_moved_into_each_other() -> None:
    headers = KEY.sign_request("GET", "/v1/view", b"", now_ms=NOW_MS)
    assert not KEY.request_is_ours("GE", "T/v1/view", body_digest(b""), headers)
    assert not KEY.answer_is_ours(headers[SIGNATURE], headers[NONCE], 200, body_digest(b""))


@pytest.mark.parametrize("away_ms", [-WINDOW_MS - 1, WINDOW_MS + 1])
def test_another_time_is_late(away_ms: int) -> None:
    assert (
        verifier()
        .check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, signed(now_ms=NOW_MS + away_ms), NOW_MS)
        .verdict
        is Verdict.LATE
    )


def test_what_an_earlier_master_may_have_seen_is_late() -> None:
    """A restarted master knows no nonces, so nothing from before its start counts."""
    headers = signed(now_ms=NOW_MS - 10)
    assert (
        verifier(started_ms=NOW_MS - 5)
        .check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, headers, NOW_MS)
        .verdict
        is Verdict.LATE
    )


@pytest.mark.parametrize("lacking", [TIME, NONCE, SIGNATURE])
def test_without_a_header_it_is_unsigned(lacking: str) -> None:
    headers = signed()
    del headers[lacking]
    assert (
        verifier().check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, headers, NOW_MS).verdict is Verdict.UNSIGNED
    )


def test_another_token_is_forged() -> None:
    other = SigningKey.of(SecretStr("another-token-0123456789abcdef"))
    assert (
        verifier().check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, signed(key=other), NOW_MS).verdict
        is Verdict.FORGED
    )


def test_who_signed_follows_from_the_key() -> None:
    for rights in Rights:
        headers = signed(key=SigningKey.of(derive(TOKEN, rights)))
        found = verifier().check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, headers, NOW_MS)
        assert found == (Verdict.GOOD, rights)


def test_nonces_are_bounded_and_forgotten_in_time() -> None:
    checks = verifier(most_nonces=2)
    for _ in range(2):
        assert checks.check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, signed(), NOW_MS).verdict is Verdict.GOOD
    assert checks.check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, signed(), NOW_MS).verdict is Verdict.CROWDED
    later_ms = NOW_MS + 2 * WINDOW_MS + 1
    assert (
        checks.check("POST", "/v1/drain?x=1", DIGEST_OF_BODY, signed(now_ms=later_ms), later_ms).verdict
        is Verdict.GOOD
    )


def test_the_token_shows_in_nothing() -> None:
    assert "planted" not in f"{KEY!r} {KEY} {signed()}"


def test_an_answer_fits_its_own_request_alone() -> None:
    signature = KEY.sign_answer("n1", 200, "d", "1-abc 0 10")
    assert KEY.answer_is_ours(signature, "n1", 200, "d", "1-abc 0 10")
    for other in (
        ("n2", 200, "d", "1-abc 0 10"),
        ("n1", 500, "d", "1-abc 0 10"),
        ("n1", 200, "e", "1-abc 0 10"),
        ("n1", 200, "d", "1-abc 5 10"),
    ):
        assert not KEY.answer_is_ours(signature, *other)
