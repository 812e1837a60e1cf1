"""The rules for names and addresses in a view: those of `crates/engine/src/ring`, which refuses whole views.

The master must never list what readers refuse, so a test holds both sides together.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata

MAX_NAME_BYTES = 255
MAX_HOST_BYTES = 253

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_PORT = re.compile(r"[0-9]{1,5}")


def check_name(name: str) -> str:
    """`name` itself. Raises `ValueError` for what cannot name a worker or a node."""
    if not name:
        raise ValueError("a name is not empty")
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise ValueError(f"a name has at most {MAX_NAME_BYTES} bytes")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise ValueError("a name has no control characters")
    return name


def check_address(address: str) -> str:
    """`address` itself. Raises `ValueError` unless it is `host:port` that somebody can connect to."""
    host, colon, port = address.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or not 0 < int(port) < 1 << 16:
        raise ValueError("an address is host:port, with a port between 1 and 65535")
    if not (_is_usable_ip(host) or _is_host_name(host)):
        raise ValueError(
            "an address starts with a host name or an IP address (IPv6 in brackets) to connect to"
        )
    return address


def _is_usable_ip(host: str) -> bool:
    try:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address
        if host.startswith("[") and host.endswith("]") and "%" not in host:
            address = ipaddress.IPv6Address(host[1:-1])
        else:
            address = ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_multicast)


def _is_host_name(host: str) -> bool:
    labels = host.split(".")
    has_letter = any(character.isalpha() for character in host)
    return len(host) <= MAX_HOST_BYTES and has_letter and all(map(_LABEL.fullmatch, labels))
