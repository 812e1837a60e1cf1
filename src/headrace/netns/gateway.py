"""The way out of a switch: what its nodes reach beyond this machine, as this machine, by NAT.

One nftables table a switch holds all rules, so that one command takes them away. A device on which the machine did not
forward before forwards answers alone meanwhile: nobody else gets a router.
"""

from __future__ import annotations

import ipaddress
import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.netns.commands import CommandError, run_command, try_command

TABLE_PREFIX = "headrace_"
_RESOLVER = Path("/etc/resolv.conf")
_RESOLVER_BEHIND = Path("/run/systemd/resolve/resolv.conf")


@dataclass(frozen=True, slots=True)
class Gateway:
    """One way out: the table of its rules, the machine's device on the switch, the nodes' subnet."""

    table: str
    device: str
    subnet: str


def can_lead_out() -> bool:
    """True where nftables is installed."""
    return shutil.which("nft") is not None


def devices_to_switch(own: str) -> tuple[str, ...]:
    """The devices on which this machine does not forward yet, or only for other switches of ours."""
    routes = json.loads(run_command("ip", "-j", "-4", "route", "show") or "[]")
    devices = sorted({str(route["dev"]) for route in routes if "dev" in route} - {own, "lo"})
    guarded = _guarded_devices()
    return tuple(device for device in devices if device in guarded or not _forwards(device))


def open_way(gateway: Gateway, devices: Sequence[str]) -> None:
    """Makes the rules, and has `devices` forward. What was made before is made anew. Raises `CommandError`."""
    close_way(gateway.table, ())
    _nft(rules_of(gateway, devices, names_behind(_read(_RESOLVER), _read(_RESOLVER_BEHIND))))
    for device in (gateway.device, *devices):
        _set_forwarding(device, on=True)


def close_way(table: str, devices: Iterable[str]) -> None:
    """Takes the rules away; `devices` forward no more, unless another switch needs them. What is gone is no error."""
    try_command("nft", "delete", "table", "ip", table)
    for device in sorted(set(devices) - _guarded_devices()):
        _set_forwarding(device, on=False)


def rules_of(gateway: Gateway, devices: Iterable[str], names: tuple[str, str] | None = None) -> str:
    """The table in nft's words. `names`: a name server of loopback, and the one behind it that others may ask."""
    guards = [
        line
        for device in devices
        for line in (f'iifname "{device}" ct state established,related accept', f'iifname "{device}" drop')
    ]
    redirects = [
        f'iifname "{gateway.device}" ip daddr {names[0]} {protocol} dport 53 dnat to {names[1]}'
        for protocol in ("udp", "tcp")
        if names
    ]
    own = gateway.device
    chains = {
        "prerouting": ["type nat hook prerouting priority dstnat;", *redirects],
        "postrouting": [
            "type nat hook postrouting priority srcnat;",
            f'ip saddr {gateway.subnet} oifname != "{own}" masquerade',
        ],
        "forward": [
            "type filter hook forward priority filter;",
            f'iifname "{own}" accept',
            f'oifname "{own}" ct state established,related accept',
            f'oifname "{own}" drop',
            *guards,
        ],
    }
    body = "".join(f"  chain {name} {{\n    {'; '.join(rules)}\n  }}\n" for name, rules in chains.items())
    return f"table ip {gateway.table} {{\n{body}}}\n".replace(";;", ";")


def names_behind(resolver: str, behind: str) -> tuple[str, str] | None:
    """A loopback name server that no node can ask, as systemd-resolved is, and whom it asks; `None` without one."""
    servers, others = _servers(resolver), _servers(behind)
    first = next((server for server in servers if server.is_loopback), None)
    if first is None or any(not server.is_loopback for server in servers):
        return None
    other = next((server for server in others if not server.is_loopback), None)
    return (str(first), str(other)) if other else None


def _servers(text: str) -> list[ipaddress.IPv4Address]:
    found = []
    for line in text.splitlines():
        word, _, address = line.strip().partition(" ")
        try:
            found += [ipaddress.IPv4Address(address.strip())] if word == "nameserver" else []
        except ValueError:
            continue
    return found


def _guarded_devices() -> set[str]:
    """The devices that forward answers alone, for one of our switches."""
    if not can_lead_out():
        return set()
    listed = json.loads(run_command("nft", "-j", "list", "ruleset") or "{}")
    rules = [entry["rule"] for entry in listed.get("nftables", ()) if "rule" in entry]
    return {device for rule in rules if (device := _dropped(rule))}


def _dropped(rule: dict[str, object]) -> str | None:
    """The device from which a rule of ours drops everything."""
    words = rule.get("expr")
    if (
        not str(rule.get("table", "")).startswith(TABLE_PREFIX)
        or not isinstance(words, list)
        or len(words) != 2
    ):
        return None
    match = words[0].get("match", {})
    is_input = match.get("left") == {"meta": {"key": "iifname"}}
    return str(match["right"]) if is_input and "drop" in words[1] else None


def _forwards(device: str) -> bool:
    return _read(_forwarding(device)).strip() == "1"


def _set_forwarding(device: str, *, on: bool) -> None:
    path = _forwarding(device)
    if path.exists():
        path.write_text("1" if on else "0")


def _forwarding(device: str) -> Path:
    return Path("/proc/sys/net/ipv4/conf") / device / "forwarding"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _nft(text: str) -> None:
    done = subprocess.run(["nft", "-f", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"`nft` failed: {done.stderr.strip()}")
