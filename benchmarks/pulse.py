"""How fast the machine itself is at a moment. A virtual one is not the same from hour to hour: figures of two runs are
compared only where this is alike."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ROUND_TRIPS = 2_000
ADDITIONS = 1_000_000
_ECHO = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
while byte := os.read(0, 1):
    os.write(1, byte)
"""


@dataclass(frozen=True)
class Pulse:
    """What a mount costs beside its bytes, and what Python costs."""

    wake_up_us: float
    """From a write to a pipe until the process that waits at it on another processor, which sleeps, has written back,
    halved: what a message to a process of a mount takes at least."""
    addition_ns: float
    """One turn of a loop of Python that adds."""


def pulse() -> Pulse:
    """What it is now; takes a fraction of a second."""
    return Pulse(_wake_up_us(), _addition_ns())


def pulse_facts(pulses: Sequence[Pulse]) -> dict[str, str]:
    """The range of each, for a report: what it was before each part of a run."""
    if not pulses:
        return {}
    wake_ups, additions = [each.wake_up_us for each in pulses], [each.addition_ns for each in pulses]
    return {
        "wake-up of a sleeping processor": f"{min(wake_ups):.0f} to {max(wake_ups):.0f} µs",
        "an addition of Python": f"{min(additions):.0f} to {max(additions):.0f} ns",
    }


def _wake_up_us() -> float:
    processors = sorted(os.sched_getaffinity(0))
    command = [sys.executable, "-S", "-E", "-c", _ECHO, str(processors[-1])]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as echo,
        _on(processors[0]),
    ):
        assert echo.stdin is not None
        assert echo.stdout is not None
        ways = echo.stdin.fileno(), echo.stdout.fileno()
        _round_trip(*ways)
        began = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            _round_trip(*ways)
        took_s = time.perf_counter() - began
        echo.stdin.close()
    return took_s / ROUND_TRIPS / 2 * 1e6


def _round_trip(to: int, back: int) -> None:
    os.write(to, b"x")
    if not os.read(back, 1):
        raise RuntimeError("the process that answers has ended")


@contextlib.contextmanager
def _on(processor: int) -> Iterator[None]:
    """Keeps this thread on one processor meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _addition_ns() -> float:
    began, total = time.perf_counter(), 0
    for number in range(ADDITIONS):
        total += number
    return (time.perf_counter() - began) / ADDITIONS * 1e9
