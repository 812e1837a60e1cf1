"""`headrace up` and `headrace down`: the local backend with its virtual nodes."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from headrace.cli import backend, printer
from headrace.cli.node_labels import parse_labels, parse_taints
from headrace.errors import ConfigError
from headrace.local.lifecycle import launch
from headrace.local.lifecycle import service as systemd_service
from headrace.local.lifecycle.teardown import tear_down
from headrace.local.protocol.messages import MOST_NODES, BackendStatus, NodesWish
from headrace.netns.gateway import can_lead_out
from headrace.netns.rates import format_rate, parse_rate
from headrace.settings.environment import Environment

_STOP_S = 20.0


def run(
    nodes: Annotated[
        int,
        typer.Option(metavar="COUNT", min=1, max=MOST_NODES, help="Minimum number of nodes."),
    ] = 1,
    node_label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NODE:]KEY=VALUE",
            help="A label of all new nodes, or of one: node-2:disk=ssd. Again for more.",
        ),
    ] = None,
    node_taint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NODE:]KEY[=VALUE]:EFFECT",
            help="A taint of all new nodes, or of one: node-2:gpu=v100:NoSchedule. Again for more.",
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Limit of each new node's link, both ways: 10Gbit. Needs root."),
    ] = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="Nodes are plain processes, as they are without root: no namespaces, no links."
        ),
    ] = False,
    service: Annotated[
        bool,
        typer.Option(
            "--service",
            help="Have systemd look after it, at starts of this machine, too: a service of the machine for root, "
            "else of the user. `down` removes it.",
        ),
    ] = False,
) -> None:
    """Start the local backend: virtual nodes on this machine, for datasets that are applied to it."""
    environment = Environment.current()
    if service:
        systemd_service.check_systemd()
    if link and plain:
        raise ConfigError.of("plain processes have no link to limit", hint="leave --plain or --link out")
    rate = parse_rate(link) if link else None
    labels, labels_of = parse_labels(node_label or [])
    taints, taints_of = parse_taints(node_taint or [])
    wish = NodesWish(
        count=nodes,
        labels=labels,
        labels_of=labels_of,
        taints=taints,
        taints_of=taints_of,
        link_bits_per_s=rate,
        plain=plain,
    )
    places = backend.places()
    status = launch.bring_up(places, wish, environment, release=metadata.version("headrace"))
    _warn(status, limited=rate is not None)
    _tell(status)
    if service:
        printer.say(f"systemd looks after it: {systemd_service.install(places, environment)}")


def _warn(status: BackendStatus, *, limited: bool) -> None:
    """Tells what a person may miss."""
    is_plain = not status.nodes[-1].namespace
    if limited and is_plain:
        printer.warn(
            "the links are not limited: without root, or beside plain ones, nodes are plain processes"
        )
    if not is_plain and not can_lead_out():
        printer.warn(
            "the nodes reach this machine and nothing beyond it: nft is not installed (Debian: nftables)"
        )


def down(
    keep_cache: Annotated[bool, typer.Option("--keep-cache", help="Leave the cache folders.")] = False,
) -> None:
    """End the local backend, with all that runs in it and all that it made."""
    places = backend.places()
    if systemd_service.remove(places, Environment.current()):
        printer.say("systemd no longer looks after the local backend")
    if not places.folder.exists():
        printer.say("the local backend is not up; nothing is left of it")
        return
    launch.stop(places, wait_s=_STOP_S)
    kept = tear_down(places, keep_caches=keep_cache, wait_s=_STOP_S)
    printer.say(
        "the local backend is down; nothing is left of it" if not kept else "the local backend is down"
    )
    for folder in kept:
        printer.say(f"kept {folder}")


def _tell(status: BackendStatus) -> None:
    names = [node.name for node in status.nodes]
    shown = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    rate = status.nodes[-1].link_bits_per_s
    limit = f", links of {format_rate(rate)}" if rate else ""
    kind = "network namespaces" if status.nodes[-1].namespace else "plain processes"
    count = f"{len(names)} node{'s' if len(names) > 1 else ''}"
    printer.say(f"the local backend is up: {count} ({shown}), {kind} on {status.network}{limit}")
