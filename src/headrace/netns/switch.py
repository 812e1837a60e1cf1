"""A switch: a bridge in a namespace of its own, to which nodes and this machine are plugged.

A node is a namespace with one cable: `eth0` on the node, a port of the node's name on the switch.
"""

from __future__ import annotations

from headrace.netns.commands import run_command, try_command
from headrace.netns.namespaces import make_namespace
from headrace.netns.rates import limit_rate

DEVICE = "eth0"
BRIDGE = "bridge"
HOST_PORT = "host"


def make_switch(switch: str) -> None:
    """The namespace with its bridge."""
    make_namespace(switch)
    run_command("ip", "-n", switch, "link", "add", BRIDGE, "type", "bridge")
    run_command("ip", "-n", switch, "link", "set", BRIDGE, "up")


def plug_host(switch: str, device: str, interface: str) -> None:
    """Gives this machine an address on the switch, `198.18.3.254/24`. A device has at most 15 letters."""
    run_command("ip", "link", "add", device, "type", "veth", "peer", "name", HOST_PORT, "netns", switch)
    run_command("ip", "address", "add", interface, "dev", device)
    run_command("ip", "link", "set", device, "up")
    _plug_in(switch, HOST_PORT)


def unplug_host(device: str) -> None:
    """Takes the cable away; one that is gone is no error."""
    try_command("ip", "link", "delete", device)


def plug_node(switch: str, namespace: str, *, port: str, interface: str, gateway: str | None = None) -> None:
    """A cable from a node's namespace to the switch, with an address at the node's end; `gateway` leads on."""
    run_command(
        *("ip", "-n", switch, "link", "add", "name", port, "type", "veth"),
        *("peer", "name", DEVICE, "netns", namespace),
    )
    # No address of version 6: its neighbour discovery would be counted with the data.
    run_command("ip", "-n", namespace, "link", "set", DEVICE, "addrgenmode", "none")
    run_command("ip", "-n", namespace, "address", "add", interface, "dev", DEVICE)
    run_command("ip", "-n", namespace, "link", "set", DEVICE, "up")
    _plug_in(switch, port)
    if gateway:
        run_command("ip", "-n", namespace, "route", "add", "default", "via", gateway)


def limit_link(switch: str, namespace: str, *, port: str, sent: int | None, received: int | None) -> None:
    """Limits a node's cable, in bits a second, as the node sees it."""
    limit_rate(namespace, DEVICE, sent)
    limit_rate(switch, port, received)


def _plug_in(switch: str, port: str) -> None:
    run_command("ip", "-n", switch, "link", "set", "dev", port, "addrgenmode", "none")
    run_command("ip", "-n", switch, "link", "set", "dev", port, "master", BRIDGE, "up")
