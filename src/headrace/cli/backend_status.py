"""`headrace status --local`: the local backend with its nodes and what runs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from headrace.api.formats import format_age
from headrace.api.kinds import KINDS
from headrace.api.printing import align
from headrace.api.times import parse_time
from headrace.cli import backend, printer
from headrace.local.messages import BackendStatus
from headrace.local.ownership import is_owned
from headrace.netns.rates import format_rate


def show(*, json: bool) -> None:
    """Writes it. Raises `MissingFileError` when the backend is not up."""
    status = backend.client().status()
    if json:
        printer.as_json(status.model_dump(mode="json"))
    else:
        _print(status)


def show_if_up() -> bool:
    """Writes it if the backend is up."""
    if not is_owned(backend.places()):
        return False
    _print(backend.client().status())
    return True


def _print(status: BackendStatus) -> None:
    now = datetime.now(UTC)
    printer.data("local backend")
    printer.table(_facts(status, now))
    printer.data("")
    printer.data(align([["NODE", "STATE", "ADDRESS", "LINK", "ROLES", "LABELS"], *_nodes(status)]))
    if status.roles:
        printer.data("")
        head = ["ROLE", "KIND", "NODE", "STATE", "PROCESS", "RESTARTS", "AGE"]
        printer.data(align([head, *_roles(status, now)]))
    if status.uses:
        printer.data("")
        rows = [[use.user, use.node, ",".join(use.datasets)] for use in status.uses]
        printer.data(align([["USER", "NODE", "DATASETS"], *rows]))


def _facts(status: BackendStatus, now: datetime) -> Iterator[tuple[str, str]]:
    age = format_age(parse_time(status.since), now)
    yield "supervisor", f"process {status.pid}, since {age}"
    yield "state", status.folder
    yield "network", status.network
    counted = [
        f"{count} {KINDS[kind].plural if count > 1 else KINDS[kind].singular}"
        for kind, count in status.objects.items()
    ]
    yield "objects", ", ".join(counted) or "none"


def _nodes(status: BackendStatus) -> Iterator[list[str]]:
    roles = Counter(role.node for role in status.roles if role.state == "running")
    for node in status.nodes:
        rate = format_rate(node.link_bits_per_s) if node.link_bits_per_s else "-"
        labels = ",".join(f"{key}={value}" for key, value in sorted(node.labels.items()))
        yield [node.name, node.state, node.address, rate, str(roles[node.name]), labels]


def _roles(status: BackendStatus, now: datetime) -> Iterator[list[str]]:
    for role in status.roles:
        age = format_age(parse_time(role.since) if role.since else None, now)
        pid = str(role.pid) if role.pid else "-"
        yield [role.id, role.role, role.node, role.state, pid, str(role.restarts), age]
