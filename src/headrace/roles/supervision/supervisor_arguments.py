"""The command line of a supervisor: `MOUNTPOINT ORDERS [ANSWER | adopt STATE | begun PID LINE RELAY [ANSWER]] [keeper
SOCKET LINEAGE]`, where spec, answer, state, line and relay are numbers of descriptors.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from headrace.roles.keeper.line import KeeperLine
from headrace.roles.supervision.child import Begun


@dataclass(frozen=True, slots=True)
class SupervisorArguments:
    """The arguments of a supervisor: `answer` where somebody waits for one, `adopted` where it goes on for another,
    `begun` where the first mount process runs already.
    """

    mountpoint: str
    spec: int
    keeper: KeeperLine | None = None
    answer: int | None = None
    adopted: dict[str, Any] | None = None
    begun: Begun | None = None


def arguments_of(arguments: list[str]) -> SupervisorArguments:
    """Understands the command line. No child inherits the descriptors that it names."""
    mountpoint, spec, *rest = arguments
    keeper = None
    if "keeper" in rest:
        rest, (path, lineage) = rest[: rest.index("keeper")], rest[rest.index("keeper") + 1 :]
        keeper = KeeperLine(path, lineage)
    os.set_inheritable(int(spec), False)
    if rest[:1] == ["adopt"]:
        with os.fdopen(int(rest[1]), "rb") as file:
            file.seek(0)
            return SupervisorArguments(mountpoint, int(spec), keeper, adopted=json.load(file))
    if rest[:1] == ["begun"]:
        begun, answer = Begun(*map(int, rest[1:4])), int(rest[4]) if rest[4:] else None
        if answer is not None:
            os.set_inheritable(answer, False)
        return SupervisorArguments(mountpoint, int(spec), keeper, answer=answer, begun=begun)
    if not rest:
        return SupervisorArguments(mountpoint, int(spec), keeper)
    os.set_inheritable(int(rest[0]), False)
    return SupervisorArguments(mountpoint, int(spec), keeper, answer=int(rest[0]))
