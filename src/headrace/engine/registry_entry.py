"""The registry's facts about one running mount, and its form as a file. No model, so that commands which only look up a
mount do not load the library of models for it.
"""

from __future__ import annotations

import json
import os
import time
from types import NoneType
from typing import Any, NamedTuple

from headrace.process.stat import started_ticks


class Entry(NamedTuple):
    """One running mount. `started_ticks` tells its process from a later one of the same number; the same holds for the
    supervisor, which starts a new process when this one dies.
    """

    name: str
    mountpoint: str
    state_directory: str
    origins: tuple[str, ...]
    pid: int
    started_ticks: int
    started_at_s: float
    mode: str
    log_file: str | None = None
    metrics_address: str | None = None
    supervisor_pid: int | None = None
    supervisor_ticks: int | None = None
    restarts: int = 0
    last_restart: str | None = None
    connection: str | None = None
    """`major:minor` of the connection to the kernel, where the mount itself has another: a view."""

    @classmethod
    def from_json(cls, text: bytes) -> Entry:
        """The entry that `to_json` wrote. Raises `ValueError` for anything else."""
        told = json.loads(text)
        if not isinstance(told, dict) or not told.keys() <= _KINDS.keys():
            raise ValueError("no entry of a mount")
        if isinstance(told.get("origins"), list):
            told["origins"] = tuple(told["origins"])
        for name, value in told.items():
            if type(value) not in _KINDS[name]:
                raise ValueError(f"{name} of a mount cannot be {value!r}")
        if not all(isinstance(label, str) for label in told.get("origins", ())):
            raise ValueError("origins of a mount are texts")
        try:
            return cls(**told)
        except TypeError as error:
            raise ValueError(f"no whole entry of a mount: {error}") from error

    def to_json(self) -> str:
        """The text of its file."""
        return json.dumps(self._asdict(), indent=2) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Its fields, as JSON has them."""
        return {**self._asdict(), "origins": list(self.origins)}

    @property
    def processes(self) -> list[tuple[int, int]]:
        """(number, start) of the processes that make the mount, those that have ended among them."""
        own = [(self.pid, self.started_ticks)]
        if self.supervisor_pid is None or self.supervisor_ticks is None:
            return own
        return [*own, (self.supervisor_pid, self.supervisor_ticks)]

    @property
    def is_restarting(self) -> bool:
        """True while the mount process is gone and the supervisor is about to start another."""
        return started_ticks(self.pid) != self.started_ticks and self.is_alive

    @property
    def is_alive(self) -> bool:
        """True while programs may hope for an answer."""
        return any(started_ticks(pid) == ticks for pid, ticks in self.processes)


_TYPES = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "tuple[str, ...]": (tuple,),
    "str | None": (str, NoneType),
    "int | None": (int, NoneType),
}
_KINDS = {name: _TYPES[hint.__forward_arg__] for name, hint in Entry.__annotations__.items()}


def own_entry(*, supervisor_pid: int | None = None, **others: Any) -> Entry:
    """An entry of this process, and of the one that looks after it."""
    pid = os.getpid()
    own: dict[str, Any] = {
        "pid": pid,
        "started_ticks": started_ticks(pid) or 0,
        "started_at_s": time.time(),
    }
    if supervisor_pid is not None:
        own |= {"supervisor_pid": supervisor_pid, "supervisor_ticks": started_ticks(supervisor_pid) or 0}
    return Entry(**{**own, **others})
