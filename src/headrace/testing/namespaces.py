"""Network namespaces of test processes: made, limited in rate, and removed even when their maker was killed.

A namespace's name holds the pid and the start time of the process that made it, so whoever comes later can tell what
was left behind. Needs root. Knows nothing of what runs inside.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

# 198.18.0.0/15 is set aside for benchmarks of network devices (RFC 2544): no real network has it.
TEST_NETWORK = ipaddress.ip_network("198.18.0.0/15")
OWNED_NAME = re.compile(r"headrace-(?P<pid>\d+)-(?P<start>\d+)-(?P<number>\d+)(?:-(?P<label>[a-z0-9-]+))?")
# A bucket of 2 ms of the rate, but never below one 64 KiB segment: tbf drops what is larger than its bucket.
BURST_S = 0.002
MINIMUM_BURST_BYTES = 131_072
QUEUE_LATENCY = "50ms"

numbers = itertools.count()
"""Tells apart what one process makes."""


def can_make_namespaces() -> bool:
    return os.geteuid() == 0 and Path("/proc/self/ns/net").exists()


def owned_name(number: int, label: str = "") -> str:
    """A name that tells who made it; the same number and label give the same name."""
    stem = f"headrace-{os.getpid()}-{start_time(os.getpid())}-{number}"
    return f"{stem}-{label}" if label else stem


def is_stale(name: str) -> bool:
    """Whether a name is one of ours and its maker is gone."""
    match = OWNED_NAME.fullmatch(name)
    return match is not None and start_time(int(match["pid"])) != int(match["start"])


def remove_stale_namespaces() -> None:
    """Removes what test processes that are gone left behind, with all that runs inside."""
    for name in _namespaces():
        if is_stale(name):
            remove_namespace(name)


def make_namespace(name: str) -> None:
    """A namespace with nothing but its loopback."""
    run_command("ip", "netns", "add", name)
    run_command("ip", "-n", name, "link", "set", "lo", "up")


def end_processes(namespace: str) -> None:
    """Kills everything that runs in a namespace, at once."""
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def remove_namespace(name: str) -> None:
    """Kills what runs in it and removes it, and its veth pairs with it."""
    end_processes(name)
    # An error here means that it is gone already.
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def limit_rate(namespace: str, device: str, rate_bits_per_s: int | None) -> None:
    """Limits what a device inside a namespace sends from now on; None takes the limit away."""
    place = ("tc", "-n", namespace, "qdisc")
    if rate_bits_per_s is None:
        # An error here means that there was no limit.
        subprocess.run([*place, "delete", "dev", device, "root"], capture_output=True, check=False)
        return
    burst = max(int(rate_bits_per_s / 8 * BURST_S), MINIMUM_BURST_BYTES)
    shaping = ("tbf", "rate", f"{rate_bits_per_s}bit", "burst", str(burst), "latency", QUEUE_LATENCY)
    run_command(*place, "replace", "dev", device, "root", *shaping)


def free_subnet(prefix_length: int) -> ipaddress.IPv4Network:
    """A part of the test network that touches no address of this machine; spread by pid."""
    taken = list(_networks_here())
    count = 2 ** (prefix_length - TEST_NETWORK.prefixlen)
    size = 2 ** (TEST_NETWORK.max_prefixlen - prefix_length)
    first = (os.getpid() * 61 + next(numbers)) % count
    for offset in range(count):
        base = int(TEST_NETWORK.network_address) + (first + offset) % count * size
        subnet = ipaddress.IPv4Network((base, prefix_length))
        if not any(subnet.overlaps(network) for network in taken):
            return subnet
    raise RuntimeError(f"every part of {TEST_NETWORK} is taken here")


def start_time(pid: int) -> int:
    """A process's start in clock ticks since boot, 0 when it is gone; tells a reused pid apart."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(after_name.split()[19])


def run_command(*command: str) -> str:
    """What the command printed; RuntimeError with its own words when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


def _namespaces() -> Iterator[str]:
    listed = run_command("ip", "-j", "netns", "list")
    yield from (entry["name"] for entry in json.loads(listed or "[]"))


def _networks_here() -> Iterator[ipaddress.IPv4Network]:
    for device in json.loads(run_command("ip", "-j", "-4", "address")):
        for address in device["addr_info"]:
            yield ipaddress.IPv4Interface(f"{address['local']}/{address['prefixlen']}").network
