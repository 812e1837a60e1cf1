"""When certificates are replaced, and what is believed meanwhile."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from handshakes import handshake
from pydantic import SecretStr

from headrace.errors import ConfigError
from headrace.webhook.certificate_rotation import (
    Kept,
    Rest,
    Rules,
    Seen,
    Step,
    data_of,
    next_step,
    read_kept,
    taken,
)
from headrace.webhook.certificates import SKEW, facts_of, make_pair
from headrace.webhook.serving_certificate import ServingContext

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
RULES = Rules(life=90 * DAY, grace_s=120)
HOST = "headrace-webhook.headrace-system.svc"
NAMES = (HOST, "headrace-webhook.headrace-system")
FIRST, SECOND, THIRD = (make_pair(NAMES, START + days * DAY, 90 * DAY) for days in (0, 61, 120))
OTHER = make_pair(("elsewhere.svc",), START, 90 * DAY)
BROKEN = replace(FIRST, certificate="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
MIXED = replace(FIRST, key=SECOND.key)
STRANGE = replace(FIRST, authority=SECOND.authority)


def step(kept: Kept, days: float, seen: Seen = Seen()) -> Step | Rest:  # noqa: B008
    return next_step(kept, frozenset(NAMES), START + days * DAY, seen, RULES)


@pytest.mark.parametrize(
    ("kept", "days", "seen", "expected"),
    [
        pytest.param(Kept(), 0, Seen(), Step.MAKE, id="nothing"),
        pytest.param(Kept(BROKEN), 1, Seen(), Step.MAKE, id="unreadable"),
        pytest.param(Kept(MIXED), 1, Seen(), Step.MAKE, id="another one's key"),
        pytest.param(Kept(STRANGE), 1, Seen(), Step.MAKE, id="another one's authority"),
        pytest.param(Kept(OTHER), 1, Seen(), Step.MAKE, id="of another Service"),
        pytest.param(Kept(FIRST), 90, Seen(), Step.MAKE, id="ended"),
        pytest.param(Kept(FIRST), -1.01, Seen(), Step.MAKE, id="of a clock far ahead"),
        pytest.param(Kept(FIRST), -0.9, Seen(), Rest(60.9 * 86400), id="of a clock a little ahead"),
        pytest.param(Kept(FIRST), 0, Seen(), Rest(60 * 86400), id="new"),
        pytest.param(Kept(FIRST), 59, Seen(900, 900), Rest(86400), id="almost two thirds"),
        pytest.param(Kept(FIRST), 60, Seen(), Step.PREPARE, id="two thirds"),
        pytest.param(Kept(FIRST), 89.9, Seen(), Step.PREPARE, id="late"),
        pytest.param(Kept(FIRST, BROKEN), 61, Seen(), Step.PREPARE, id="an unreadable next"),
        pytest.param(Kept(FIRST, OTHER), 61, Seen(), Step.PREPARE, id="a next of another Service"),
        pytest.param(Kept(FIRST, SECOND), 61, Seen(None), Rest(120), id="not announced"),
        pytest.param(Kept(FIRST, SECOND), 61, Seen(20), Rest(100), id="announced for a moment"),
        pytest.param(Kept(FIRST, SECOND), 61, Seen(120), Step.PROMOTE, id="announced for long"),
        pytest.param(Kept(FIRST, SECOND), 90.1, Seen(None), Step.PROMOTE, id="nothing better to serve"),
        pytest.param(Kept(SECOND, previous_authority="x"), 61, Seen(0, 20), Rest(100), id="just promoted"),
        pytest.param(Kept(SECOND, previous_authority="x"), 61, Seen(0, 120), Step.RETIRE, id="served by all"),
    ],
)
def test_steps(kept: Kept, days: float, seen: Seen, expected: Step | Rest) -> None:
    found = step(kept, days, seen)
    if isinstance(expected, Rest):
        assert isinstance(found, Rest)
        assert found.seconds == pytest.approx(expected.seconds, abs=1)
    else:
        assert found is expected


def test_a_rotation_believes_old_and_new_until_the_old_one_is_served_by_nobody() -> None:
    kept = taken(Step.MAKE, Kept(), FIRST)
    assert kept.bundle == FIRST.authority
    kept = taken(Step.PREPARE, kept, SECOND)
    assert (kept.current, kept.bundle) == (FIRST, FIRST.authority + SECOND.authority)
    kept = taken(Step.PROMOTE, kept, THIRD)
    assert (kept.current, kept.next, kept.bundle) == (SECOND, None, SECOND.authority + FIRST.authority)
    kept = taken(Step.RETIRE, kept, THIRD)
    assert (kept.current, kept.bundle) == (SECOND, SECOND.authority)


def test_what_replaces_an_unusable_pair_is_believed_beside_it() -> None:
    """A replica that has not looked yet still serves the old one."""
    assert taken(Step.MAKE, Kept(OTHER), FIRST).bundle == FIRST.authority + OTHER.authority


@pytest.mark.parametrize(
    "kept", [Kept(), Kept(FIRST), Kept(FIRST, SECOND), Kept(SECOND, None, FIRST.authority)]
)
def test_what_is_kept_is_read_back(kept: Kept) -> None:
    assert read_kept({"data": data_of(kept)}) == kept


@pytest.mark.parametrize(
    "data", [None, {}, {"tls.crt": "?"}, {"tls.crt": "w7w="}, {"ca.crt": "YQ==", "tls.crt": "YQ=="}]
)
def test_a_secret_without_a_whole_pair_holds_none(data: Any) -> None:
    assert read_kept({"data": data}) == Kept()


def test_life_begins_after_a_day_for_clocks_that_are_behind() -> None:
    facts = facts_of(FIRST)
    assert (facts.begins, facts.ends, facts.names) == (START, START + 90 * DAY, frozenset(NAMES))
    assert timedelta(hours=1) <= SKEW


def test_the_key_shows_in_no_text() -> None:
    secret = FIRST.key.get_secret_value().splitlines()[1]
    with pytest.raises(ConfigError) as caught:
        facts_of(replace(FIRST, key=SecretStr(FIRST.key.get_secret_value()[:100])))
    assert secret not in f"{FIRST!r} {Kept(FIRST)!r} {caught.value!r} {caught.value.__cause__!r}"


def test_a_handshake_is_believed_by_the_authority_and_no_other() -> None:
    serving = ServingContext()
    pair = make_pair(NAMES, datetime.now(UTC), DAY)
    assert serving.serve(pair)
    assert not serving.serve(pair)
    assert handshake(serving.context, pair.authority, HOST).getpeercert()
    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(serving.context, FIRST.authority, HOST)
    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(serving.context, pair.authority, "elsewhere.svc")


def test_the_secret_holds_no_key_that_signs() -> None:
    """Whoever reads the Secret can be the webhook, and nobody else."""
    data = data_of(Kept(FIRST, SECOND))
    keys = [key for key, value in data.items() if b"PRIVATE KEY" in base64.b64decode(value)]
    assert keys == ["tls.key", "next-tls.key"]
