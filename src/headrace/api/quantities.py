"""Amounts as Kubernetes writes them, and as Fluid accepts them: `180G`, `50Gi`, `500m`, `0.99`, `60`.

A quantity stays the text (or number) that a person wrote; `size_bytes` and `ratio` say what it means.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from headrace.errors import ConfigError
from headrace.settings.sizes import parse_size

# The pattern that the API server's own quantities follow, and the spaces and the "b" that Fluid accepts besides.
SIZE_PATTERN = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+) ?([kKmMgGtTpPeE]i?)?[bB]?$"
QUANTITY_PATTERN = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
RATIO_PATTERN = r"^(0(\.[0-9]+)?|1(\.0+)?|\.[0-9]+)$"

_QUANTITY = re.compile(QUANTITY_PATTERN.strip("^$"), re.ASCII)
_SIZE = re.compile(SIZE_PATTERN.strip("^$"), re.ASCII)
_RATIO = re.compile(RATIO_PATTERN.strip("^$"), re.ASCII)
_FACTORS = {
    **{letter: Fraction(1000) ** power for power, letter in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)},
}


def size_bytes(size: int | str) -> int:
    """Bytes of a size: `Gi` is 1024³ and `G` is 1000³, as in Kubernetes."""
    return size if isinstance(size, int) else parse_size(size)


def amount_of(quantity: int | str) -> Fraction | None:
    """The number that a quantity of Kubernetes stands for, however it is written; `None` for anything else."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        return None
    suffix = found[3] or ""
    factor = _FACTORS.get(suffix)
    return Fraction(str(quantity).removesuffix(suffix)) * factor if factor else Fraction(str(quantity))


def ratio(text: str) -> float:
    """The number of a ratio."""
    return float(text)


def _check_quantity(value: Any) -> int | str:
    if _is_whole(value) or (isinstance(value, str) and _QUANTITY.fullmatch(value)):
        return _passed(value)
    raise ValueError(f"{_shown(value)} is not a quantity: write it like 500m, 2, 1.5Gi or 180G")


def _check_size(value: Any) -> int | str:
    if isinstance(value, str) and _SIZE.fullmatch(value):
        try:
            amount = parse_size(value)
        except ConfigError:
            amount = 0
    else:
        amount = value if _is_whole(value) else 0
    if amount <= 0:
        raise ValueError(f"{_shown(value)} is not a size above zero: write it like 50Gi, 180G or 1.5Ti")
    return _passed(value)


def _check_ratio(text: str) -> str:
    if not _RATIO.fullmatch(text):
        raise ValueError(f'{_shown(text)} is not a ratio: a number from 0 to 1 in quotes, like "0.95"')
    return text


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _passed(value: Any) -> int | str:
    return value if isinstance(value, str) else int(value)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value} (without quotes)"
    if isinstance(value, bool | int):
        return str(value).lower()
    return f"'{value[:32]}'" if isinstance(value, str) else "this"


def _int_or_string(pattern: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": pattern,
            "x-kubernetes-int-or-string": True,
        }
    )


Quantity = Annotated[int | str, PlainValidator(_check_quantity), _int_or_string(QUANTITY_PATTERN)]
"""An amount of cpu, memory or anything else that Kubernetes counts."""

Size = Annotated[int | str, PlainValidator(_check_size), _int_or_string(SIZE_PATTERN)]
"""An amount of bytes above zero."""

Ratio = Annotated[
    str,
    Field(max_length=16, json_schema_extra={"pattern": RATIO_PATTERN}),
    AfterValidator(_check_ratio),
]
"""A share from 0 to 1, as text."""
