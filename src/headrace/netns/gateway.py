"""The way out of a switch: what its nodes reach beyond this machine, as this machine, by NAT.

One nftables table a switch holds all rules, so that one command takes them away. A machine that forwarded nothing
before forwards meanwhile, but from its devices of that time answers alone: nobody gets a router.
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
DEVICE_PREFIX = "hrl"
"""Of this machine's devices on switches that have a way out."""

_GUARD = "guard"
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
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


def devices_to_guard() -> tuple[str, ...] | None:
    """The devices of a machine that forwards nothing yet, or only for switches of ours; `None` when it does anyhow."""
    if _forwards() and not _is_guarded():
        return None
    links = json.loads(run_command("ip", "-j", "link", "show") or "[]")
    names = (str(link["ifname"]) for link in links)
    return tuple(sorted(name for name in names if name != "lo" and not name.startswith(DEVICE_PREFIX)))


def open_way(gateway: Gateway, guarded: Sequence[str] | None) -> None:
    """Makes the rules, and has the machine forward. An earlier way is made anew. Raises `CommandError`."""
    try_command("nft", "delete", "table", "ip", gateway.table)
    _nft(rules_of(gateway, guarded, names_behind(_read(_RESOLVER), _read(_RESOLVER_BEHIND))))
    if guarded is not None:
        _FORWARDING.write_text("1")


def close_way(table: str, guarded: Sequence[str] | None) -> None:
    """Takes the rules away, and ends the forwarding unless another switch needs it. A way that is gone is no error."""
    try_command("nft", "delete", "table", "ip", table)
    if guarded is not None and not _is_guarded():
        _FORWARDING.write_text("0")
        # Another switch may have got its way out since we looked: it wrote its "1" after its rules.
        if _is_guarded():
            _FORWARDING.write_text("1")


def rules_of(gateway: Gateway, guarded: Iterable[str] | None, names: tuple[str, str] | None = None) -> str:
    """The table in nft's words. `names`: a name server of loopback, and the one behind it that others may ask."""
    guards = [f'iifname "{device}" ct state != {{ established, related }} drop' for device in guarded or ()]
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
        ],
    }
    if guarded is not None:
        chains[_GUARD] = ["type filter hook forward priority filter + 1;", *guards]
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


def _is_guarded() -> bool:
    """True while the machine forwards for a switch of ours alone."""
    if not can_lead_out():
        return False
    listed = json.loads(run_command("nft", "-j", "list", "chains") or "{}")
    chains = [entry["chain"] for entry in listed.get("nftables", ()) if "chain" in entry]
    return any(each["name"] == _GUARD and str(each["table"]).startswith(TABLE_PREFIX) for each in chains)


def _forwards() -> bool:
    return _read(_FORWARDING).strip() == "1"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _nft(text: str) -> None:
    done = subprocess.run(["nft", "-f", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"`nft` failed: {done.stderr.strip()}")
