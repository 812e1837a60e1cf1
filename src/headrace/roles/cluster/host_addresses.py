"""The place of a process, for others: the name of its machine, and the address under which it is reached."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from headrace.errors import ConfigError
from headrace.settings.addresses import format_address, parse_address

_WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - recognised, not used
_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def host_name() -> str:
    """The machine's name, as an id may be."""
    return _NOT_OF_A_NAME.sub("-", socket.gethostname()).strip("-._")[:63] or "localhost"


def listening_address(listen: str) -> str:
    """`ADDRESS:PORT` as the engine wants it: numbers. Raises `ConfigError` for a name that is none of this machine."""
    host, port = parse_address(listen)
    if host in _WILDCARDS:
        return format_address(host or "0.0.0.0", port)  # noqa: S104 - asked for
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError.of(f"cannot listen on {listen}: {error.strerror}", hint="give an address") from None
    return format_address(str(found[0][4][0]), port)


def advertised_address(advertise: str | None, listening: str, master: str) -> str:
    """`HOST:PORT` for others: as told, else as listened to, else the address that this machine has towards the master.

    Raises `ConfigError` when none can be found.
    """
    host, port = parse_address(listening)
    if advertise is not None:
        if advertise.rpartition("]")[2].count(":") != 1:
            return format_address(advertise.strip("[]"), port)
        return format_address(*parse_address(advertise))
    if host not in _WILDCARDS:
        return format_address(host, port)
    return format_address(_address_towards(master), port)


def _address_towards(master: str) -> str:
    """No packet is sent: a connected datagram socket only asks the kernel for its route."""
    parts = urlsplit(master)
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError.of(
            f"the address of this worker towards {master} cannot be found: {error.strerror}",
            hint="give `advertise: HOST:PORT`",
        ) from None
