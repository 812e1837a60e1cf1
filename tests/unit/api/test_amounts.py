"""Quantities of Kubernetes are compared by what they stand for."""

from __future__ import annotations

from fractions import Fraction

import pytest

from headrace.api.quantities import amount_of


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("100Gi", 100 * 1024**3),
        ("102400Mi", 100 * 1024**3),
        ("1.5k", 1500),
        ("500m", Fraction(1, 2)),
        ("1e3", 1000),
        ("2E", 2 * 10**18),
        (7, 7),
        ("-1", -1),
        ("plenty", None),
        ("", None),
        ("1 Gi", None),
    ],
)
def test_an_amount_is_a_number_or_none(text: int | str, amount: Fraction | int | None) -> None:
    assert amount_of(text) == amount
