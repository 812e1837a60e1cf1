"""`headrace status --local`: whether the supervisor is alive, the nodes, the processes, and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import typer

from headrace.api.formats import format_age
from headrace.api.kinds import KINDS
from headrace.api.printing import align
from headrace.api.times import parse_time
from headrace.cli import backend, printer
from headrace.errors import MissingFileError, OriginUnreachableError
from headrace.exits import ExitCode
from headrace.local.lifecycle.backend_lock import is_owned, owner
from headrace.local.lifecycle.offline_status import offline_status
from headrace.local.protocol.messages import BackendStatus
from headrace.netns.rates import format_rate

_LONGEST_MESSAGE = 200
_ANSWER_S = 10.0


def show(*, json: bool) -> None:
    """Writes it. When the supervisor does not answer, what the files tell, and the command fails.

    Raises `MissingFileError` when there is no backend.
    """
    status, fault = _asked()
    if json:
        printer.as_json(status.model_dump(mode="json") | ({"fault": fault} if fault else {}))
    else:
        _print(status, fault)
    if fault:
        printer.flush()
        raise typer.Exit(int(ExitCode.NOT_FOUND))


def show_if_up() -> bool:
    """Writes it if the backend is up."""
    if not is_owned(backend.places()):
        return False
    _print(*_asked())
    return True


def _asked() -> tuple[BackendStatus, str]:
    """The status, and what is wrong with the supervisor."""
    places = backend.places()
    try:
        return backend.client().status(timeout_s=_ANSWER_S), ""
    except (MissingFileError, OriginUnreachableError) as error:
        status = offline_status(places)
        if status is None:
            raise
        pid = owner(places) if is_owned(places) else None
        fault = f"process {pid} does not answer" if pid else "not running"
        hint = f"its log is {places.log}" if pid else "`headrace up` takes over what runs"
        if pid and isinstance(error, MissingFileError):
            fault = f"process {pid} starts, or does not answer"
        return status, f"{fault}; {hint}"


def _print(status: BackendStatus, fault: str) -> None:
    now = datetime.now(UTC)
    printer.data("local backend")
    printer.table(_facts(status, fault, now))
    printer.data("")
    printer.data(align([["NODE", "STATE", "ADDRESS", "LINK", "ROLES", "LABELS"], *_nodes(status)]))
    if status.roles:
        printer.data("")
        head = ["ROLE", "KIND", "NODE", "STATE", "PROCESS", "RESTARTS", "AGE"]
        printer.data(align([head, *_roles(status, now)]))
    if status.troubles:
        printer.data("")
        printer.data(align([["TROUBLE", "CONDITION", "REASON", "SINCE", "MESSAGE"], *_troubles(status, now)]))
    if status.uses:
        printer.data("")
        rows = [[use.user, use.node, ",".join(use.datasets)] for use in status.uses]
        printer.data(align([["USER", "NODE", "DATASETS"], *rows]))


def _facts(status: BackendStatus, fault: str, now: datetime) -> Iterator[tuple[str, str]]:
    if fault:
        yield "supervisor", fault
    else:
        yield "supervisor", f"process {status.pid}, since {format_age(parse_time(status.since), now)}"
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
        state = role.health or role.state
        yield [role.id, role.role, role.node or "-", state, pid, str(role.restarts), age]


def _troubles(status: BackendStatus, now: datetime) -> Iterator[list[str]]:
    for each in status.troubles:
        name = f"{KINDS[each.object.kind].singular}/{each.object.namespace}/{each.object.name}"
        age = format_age(parse_time(each.since) if each.since else None, now)
        message = " ".join(each.message.split())
        short = message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 1]}…"
        yield [name, each.condition, each.reason or "-", age, short]
