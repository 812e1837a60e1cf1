from __future__ import annotations

import pytest

from headrace.errors import ConfigError
from headrace.netns.rates import format_rate, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10Gbit", 10**10),
        ("100mbit", 10**8),
        ("2.5Gbit/s", 25 * 10**8),
        (" 64 Kbit ", 64_000),
        ("1000000bit", 10**6),
    ],
)
def test_rates_are_bits_a_second(text: str, rate: int) -> None:
    assert parse_rate(text) == rate
    assert parse_rate(format_rate(rate)) == rate


@pytest.mark.parametrize("text", ["", "10", "10G", "10GB", "0bit", "-1Gbit", "1e9bit", "9999Tbit", "١Gbit"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not the rate of a link"):
        parse_rate(text)
