"""Limits on what a device sends, and how people write them."""

from __future__ import annotations

import re
from decimal import Decimal

from headrace.errors import ConfigError
from headrace.netns.commands import run_command, try_command

# A bucket of 2 ms of the rate, but never below one 64 KiB segment: tbf drops what is larger than its bucket.
BURST_S = 0.002
MINIMUM_BURST_BYTES = 131_072
QUEUE_LATENCY = "50ms"
_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)bit(?:/s|ps)?", re.IGNORECASE | re.ASCII)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SLOWEST, _FASTEST = 10**4, 10**13


def parse_rate(text: str) -> int:
    """Bits a second of `10Gbit`, `100Mbit`, `2.5gbit/s`. Raises `ConfigError`."""
    match = _RATE.fullmatch(text.strip())
    rate = int(Decimal(match["number"]) * _FACTORS[match["unit"].lower()]) if match else 0
    if not _SLOWEST <= rate <= _FASTEST:
        raise ConfigError.of(
            f"'{text[:64]}' is not the rate of a link", hint="write it in bits a second: 10Gbit, 100Mbit"
        )
    return rate


def format_rate(bits_per_s: int) -> str:
    """`10Gbit`, `2.5Gbit`."""
    for unit in ("t", "g", "m", "k"):
        if bits_per_s >= _FACTORS[unit]:
            return f"{bits_per_s / _FACTORS[unit]:g}{unit.upper()}bit"
    return f"{bits_per_s}bit"


def limit_rate(namespace: str, device: str, rate_bits_per_s: int | None) -> None:
    """Limits what a device inside a namespace sends from now on; None takes the limit away."""
    place = ("tc", "-n", namespace, "qdisc")
    if rate_bits_per_s is None:
        # An error here means that there was no limit.
        try_command(*place, "delete", "dev", device, "root")
        return
    burst = max(int(rate_bits_per_s / 8 * BURST_S), MINIMUM_BURST_BYTES)
    shaping = ("tbf", "rate", f"{rate_bits_per_s}bit", "burst", str(burst), "latency", QUEUE_LATENCY)
    run_command(*place, "replace", "dev", device, "root", *shaping)
