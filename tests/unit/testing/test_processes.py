"""Ports for servers of tests, and processes that are stopped."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.testing import processes
from headrace.testing.processes import free_port, freeze, stands_still

# Counts in a file with several threads, without end.
COUNTERS = """
import os, sys, threading
file = os.open(sys.argv[1], os.O_WRONLY)

def count(place):
    number = 0
    while True:
        number += 1
        os.pwrite(file, number.to_bytes(8, "little"), 8 * place)

for place in range(4):
    threading.Thread(target=count, args=(place,)).start()
"""


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


def test_a_process_that_is_frozen_does_nothing_more(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(32))
    program = subprocess.Popen([sys.executable, "-c", COUNTERS, counts])
    try:
        for _ in range(20):
            before = counts.read_bytes()
            while counts.read_bytes() == before:
                time.sleep(0.001)
            freeze(program.pid)
            frozen = counts.read_bytes()
            time.sleep(0.01)
            assert counts.read_bytes() == frozen
            program.send_signal(signal.SIGCONT)
    finally:
        program.kill()
        program.wait()
    with pytest.raises(ProcessLookupError):
        freeze(program.pid)


def test_a_process_that_has_ended_stands_still() -> None:
    program = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    assert stands_still(program.pid)
    program.wait()
    assert stands_still(program.pid)
    assert not stands_still(os.getpid())
