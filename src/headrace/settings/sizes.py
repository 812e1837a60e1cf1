"""Amounts of bytes as people write them. Knows nothing of disks: a share of one is resolved by who knows its size."""

from __future__ import annotations

import re
from typing import NamedTuple

from headrace.errors import ConfigError

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15, "e": 10**18}
_BINARY = {f"{prefix}i": 1024**power for power, prefix in enumerate("kmgtpe", start=1)}
_FACTORS = _DECIMAL | _BINARY
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[kmgtpe]?i?)b?", re.IGNORECASE | re.ASCII)
_LARGEST = 2**63 - 1
_BINARY_NAMES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Quota(NamedTuple):
    """Room on a disk: either `size_bytes`, or a share of the whole disk from 0 (excluded) to 1."""

    size_bytes: int | None = None
    share: float | None = None

    def resolve(self, disk_bytes: int) -> int:
        """Bytes, on a disk of `disk_bytes`."""
        if self.size_bytes is not None:
            return self.size_bytes
        return int(disk_bytes * (self.share or 0.0))

    def __str__(self) -> str:
        """As people write it."""
        return str(self.size_bytes) if self.size_bytes is not None else f"{(self.share or 0.0) * 100:.15g}%"


def parse_size(text: str, *, setting: str = "") -> int:
    """Bytes of `100Gi`, `1.5T`, `200GB`, `4096`: as in Kubernetes, `Gi` is 1024³ and `G` is 1000³; case is ignored.

    Raises `ConfigError`, which names the `setting` if there is one.
    """
    match = _SIZE.fullmatch(text.strip())
    factor = _FACTORS.get(match["unit"].lower()) if match else None
    if match is None or factor is None:
        raise _wrong(text, "a size", setting)
    from decimal import Decimal  # noqa: PLC0415 - who only writes sizes needs none

    size = int(Decimal(match["number"]) * factor)
    if size > _LARGEST:
        raise _wrong(text, "a size that any disk has", setting)
    return size


def parse_quota(text: str) -> Quota:
    """A size, or `50%` of the disk."""
    stripped = text.strip()
    if not stripped.endswith("%"):
        size = parse_size(stripped)
        if size == 0:
            raise _wrong(text, "a quota above zero")
        return Quota(size_bytes=size)
    try:
        percent = float(stripped[:-1])
    except ValueError:
        raise _wrong(text, "a size") from None
    if not 0 < percent <= 100:
        raise _wrong(text, "a share of the disk above 0 and up to 100%")
    return Quota(share=percent / 100)


def format_size(size_bytes: int) -> str:
    """`648.00GiB`: two digits and the largest binary unit that leaves at least 1; bytes without digits."""
    amount = float(size_bytes)
    unit = 0
    while abs(amount) >= 1024 and unit < len(_BINARY_NAMES) - 1:
        amount /= 1024
        unit += 1
    return f"{size_bytes}B" if unit == 0 else f"{amount:.2f}{_BINARY_NAMES[unit]}"


def exact_size(size_bytes: int) -> str:
    """`64Mi`: the largest binary unit of which it is a whole number, as sizes are written."""
    for unit, factor in reversed(_BINARY.items()):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit.capitalize()}"
    return str(size_bytes)


def _wrong(text: str, wanted: str, setting: str = "") -> ConfigError:
    where = f"setting '{setting}': " if setting else ""
    return ConfigError.of(
        f"{where}'{text}' is not {wanted}", hint="write sizes like 512Mi, 100Gi, 1.5T, 200GB or 50%"
    )
