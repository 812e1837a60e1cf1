from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.settings.sizes import Quota, format_size, parse_quota, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("4096B", 4096),
        ("100Gi", 100 << 30),
        ("100GiB", 100 << 30),
        ("100gib", 100 << 30),
        ("200GB", 200 * 10**9),
        ("200G", 200 * 10**9),
        ("1.5T", 1_500_000_000_000),
        ("1.5Ti", 3 << 39),
        (".5Ki", 512),
        (" 2 Mi ", 2 << 20),
        ("0.1Ki", 102),
        ("7E", 7 * 10**18),
    ],
)
def test_size_is_read_as_kubernetes_reads_it(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "Gi", "-1", "1e3", "1,5G", "10 Gi Gi", "10X", "1i", "٣Gi", "9Ei", "1Gi\n2", "nan", "0x10"]
)
def test_what_is_no_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a size") as caught:
        parse_size(text)
    assert f"'{text}'" in str(caught.value)
    assert "100Gi" in (caught.value.hint or "")


@given(st.integers(min_value=0, max_value=2**62))
def test_plain_bytes_are_read_exactly(size: int) -> None:
    assert parse_size(str(size)) == size


@given(st.integers(min_value=0, max_value=10**6), st.sampled_from(["Ki", "Mi", "Gi", "Ti"]))
def test_binary_units_are_powers_of_1024(number: int, unit: str) -> None:
    power = ["Ki", "Mi", "Gi", "Ti"].index(unit) + 1
    assert parse_size(f"{number}{unit}") == number * 1024**power


@given(st.text(max_size=12))
def test_any_text_gives_a_size_or_a_config_error(text: str) -> None:
    try:
        assert 0 <= parse_size(text) < 2**63
    except ConfigError as error:
        assert error.hint


def test_share_of_a_disk_is_resolved_against_it() -> None:
    assert parse_quota("50%") == Quota(share=0.5)
    assert parse_quota("50%").resolve(1000) == 500
    assert parse_quota("1Ki").resolve(10) == 1024


@pytest.mark.parametrize("text", ["0%", "101%", "%", "-5%", "0", "nan%", "inf%"])
def test_empty_or_impossible_quota_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_quota(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (1023, "1023B"), (1024, "1.00KiB"), (648 << 30, "648.00GiB"), (2**70, "1024.00EiB")],
)
def test_size_is_shown_with_two_digits(size: int, text: str) -> None:
    assert format_size(size) == text
