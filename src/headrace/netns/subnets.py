"""Addresses for namespaces: parts of a network that no real machine has."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator

from headrace.netns.commands import run_command

# 198.18.0.0/15 is set aside for benchmarks of network devices (RFC 2544): no real network has it.
NETWORK = ipaddress.ip_network("198.18.0.0/15")


def free_subnet(prefix_length: int, *, start: int) -> ipaddress.IPv4Network:
    """A part of the network that touches no address of this machine, and nothing it has a way to.

    `start` spreads those who ask at the same time.
    """
    used = list(_networks_here())
    count = 2 ** (prefix_length - NETWORK.prefixlen)
    size = 2 ** (NETWORK.max_prefixlen - prefix_length)
    for offset in range(count):
        base = int(NETWORK.network_address) + (start + offset) % count * size
        subnet = ipaddress.IPv4Network((base, prefix_length))
        if not any(subnet.overlaps(network) for network in used):
            return subnet
    raise RuntimeError(f"every part of {NETWORK} is taken here")


def _networks_here() -> Iterator[ipaddress.IPv4Network]:
    for device in json.loads(run_command("ip", "-j", "-4", "address")):
        for address in device["addr_info"]:
            yield ipaddress.IPv4Interface(f"{address['local']}/{address['prefixlen']}").network
    # Behind a device there may be more, such as the networks of pods; an older way would win over that of a new device.
    for route in json.loads(run_command("ip", "-j", "-4", "route")):
        if route["dst"] != "default":
            yield ipaddress.IPv4Network(route["dst"])
