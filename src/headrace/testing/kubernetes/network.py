"""The network of a cluster: a switch, and on it this machine, the nodes and the control plane."""

from __future__ import annotations

from headrace.netns.commands import run_command
from headrace.netns.lock import network_lock
from headrace.netns.namespaces import enter_prefix, make_namespace
from headrace.netns.switch import DEVICE, make_switch, plug_host, plug_node
from headrace.testing.kubernetes.layout import Layout, Plan, choose_plan
from headrace.testing.kubernetes.node import add_route, make_routes

_PREFIX = 24


def take_addresses(layout: Layout, nodes: int) -> Plan:
    """A plan whose addresses are the cluster's alone: the switch is there, and this machine's ways lead to it.

    Another search for free addresses, by a cluster of tests or a network of theirs, waits meanwhile.
    """
    make_switch(layout.switch)
    with network_lock():
        plan = choose_plan(layout, nodes)
        addresses = plan.addresses
        plug_host(layout.switch, layout.device, f"{addresses.host}/{_PREFIX}")
        for _, number in _numbered(plan):
            add_route(("ip",), str(addresses.pods_of(number)), str(addresses.node(number)), layout.device)
        # The kube-proxy beside the control plane leads this machine to services, too.
        add_route(("ip",), str(addresses.services), str(addresses.control), layout.device)
    return plan


def plug_machines(layout: Layout, plan: Plan) -> None:
    """Nodes and control plane, as network namespaces that reach each other."""
    addresses = plan.addresses
    _plug(layout, plan, layout.control, "control", str(addresses.control))
    for name, number in _numbered(plan):
        _plug(layout, plan, layout.namespace(name), name, str(addresses.node(number)))
    for _, number in _numbered(plan):
        make_routes(layout, plan, number)
        way = (str(addresses.pods_of(number)), str(addresses.node(number)))
        add_route(("ip", "-n", layout.control), *way, DEVICE)
    run_command(*enter_prefix(layout.control), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def _plug(layout: Layout, plan: Plan, namespace: str, port: str, address: str) -> None:
    make_namespace(namespace)
    interface, gateway = f"{address}/{_PREFIX}", str(plan.addresses.host)
    plug_node(layout.switch, namespace, port=port, interface=interface, gateway=gateway)


def _numbered(plan: Plan) -> list[tuple[str, int]]:
    return [(name, number) for number, name in enumerate(plan.node_names, 1)]
