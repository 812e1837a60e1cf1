"""Ports for servers of tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.testing import processes
from headrace.testing.processes import free_port


def test_a_port_is_none_that_the_kernel_gives_out_by_itself() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    if first < 30_000:
        pytest.skip("the kernel gives out nearly all ports here")
    assert not any(first <= free_port() <= last for _ in range(20))


def test_nobody_gets_a_port_that_was_just_given_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = free_port(), free_port()

    class Chance:
        """Has the same luck at first."""

        offered = [first, second, first]

        def choice(self, candidates: Sequence[int]) -> int:
            return self.offered.pop() if self.offered else random.choice(candidates)

    monkeypatch.setattr(processes, "_CHANCE", Chance())
    assert free_port() not in (first, second)
    assert Chance.offered == []


def test_an_address_that_this_machine_has_not_is_told() -> None:
    with pytest.raises(OSError, match="assign"):
        free_port("203.0.113.7")
