"""Lends ports of this machine's loopback to a node: what it calls `127.0.0.1:PORT` is this machine's server there.

Servers of people who try things listen on loopback. A node has a loopback of its own for its programs, so only the
ports that are lent lead to this machine: by a routing rule for each, no relay, and over the node's link like all else.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from headrace.netns.commands import run_command
from headrace.netns.namespaces import enter_prefix
from headrace.netns.switch import DEVICE

_SETTINGS = Path("/proc/sys/net/ipv4/conf")
_TABLE = "77"
_LOOPBACK = "127.0.0.0/8"
_LOCAL_RULE = "1"
_DEFAULT_PORTS: Mapping[str, tuple[int, ...]] = {
    "http": (80,),
    "https": (443,),
    # Port mapper, NFS, and where mount daemons usually are.
    "nfs": (111, 2049, 20048),
    "hdfs": (8020, 9870),
    "webhdfs": (9870,),
}


def open_loopback(device: str) -> None:
    """Lets what comes from a switch reach this machine's loopback: `device` is this machine's on it."""
    (_SETTINGS / device / "route_localnet").write_text("1")


def lend_ports(namespace: str, gateway: str, address: str, ports: Iterable[int]) -> None:
    """Makes `127.0.0.1:PORT` on a node lead to this machine. A port that is lent already stays so. Blocks."""
    asked = set(ports)
    wanted = asked - _lent(namespace) if asked else asked
    if not wanted:
        return
    _prepare(namespace, gateway, address)
    for port in sorted(wanted):
        run_command(
            *("ip", "-n", namespace, "rule", "add", "pref", "0", "to", _LOOPBACK),
            *("ipproto", "tcp", "dport", str(port), "lookup", _TABLE),
        )


def loopback_ports(words: Iterable[str]) -> frozenset[int]:
    """The ports of loopback that addresses lead to: `http://127.0.0.1:9000`, `localhost:9000`, `nfs://127.0.0.1/a`."""
    return frozenset(port for word in words for port in _ports_of(word))


def _ports_of(word: str) -> tuple[int, ...]:
    try:
        parts = urlsplit(word if "://" in word else f"//{word}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return ()
    if not _is_loopback(host or ""):
        return ()
    usual = _DEFAULT_PORTS.get(parts.scheme, ())
    # The port in an address of NFS is one of several.
    return (*usual, port) if port and parts.scheme == "nfs" else (port,) if port else usual


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _lent(namespace: str) -> set[int]:
    rules = json.loads(run_command("ip", "-n", namespace, "-j", "rule", "show") or "[]")
    return {int(rule["dport"]) for rule in rules if str(rule.get("table")) == _TABLE and "dport" in rule}


def _prepare(namespace: str, gateway: str, address: str) -> None:
    """Has the node look at lent ports before it looks at its own addresses, and take answers from loopback."""
    rules = json.loads(run_command("ip", "-n", namespace, "-j", "rule", "show") or "[]")
    if not any(rule.get("table") == "local" and rule.get("priority") == int(_LOCAL_RULE) for rule in rules):
        run_command("ip", "-n", namespace, "rule", "add", "pref", _LOCAL_RULE, "lookup", "local")
        run_command("ip", "-n", namespace, "rule", "del", "pref", "0", "lookup", "local")
    # Answers come from an address of loopback, which is no source for other devices otherwise.
    settings = {
        f"{DEVICE}/route_localnet": 1,
        f"{DEVICE}/accept_local": 1,
        f"{DEVICE}/rp_filter": 0,
        "all/rp_filter": 0,
    }
    script = "; ".join(f"echo {value} > {_SETTINGS}/{name}" for name, value in settings.items())
    run_command(*enter_prefix(namespace), "sh", "-ec", script)
    route = ("route", "replace", _LOOPBACK, "via", gateway, "dev", DEVICE, "src", address, "table", _TABLE)
    run_command("ip", "-n", namespace, *route)
