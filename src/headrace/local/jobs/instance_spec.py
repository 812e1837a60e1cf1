"""The spec of an instance's process, and its report. docs/format/local-jobs.md describes both.

A spec holds values of variables and of configuration: it is a private file, which the process takes away when it has
read it. The rest stays in the folder of the instance for whoever supervises.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from headrace.errors import CorruptDataError
from headrace.local.operations.runner_spec import BindMount
from headrace.process.deferred_model import DeferredModel

_LARGEST_BYTES = 16 << 20
_LARGEST_STATE_BYTES = 64 << 10
SPEC_FILE = "orders.json"
STATE_FILE = "state.json"
GROUPS_FILE = "groups"
"""The folders of its control group, one a line: there before the group is."""


class _Part(DeferredModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class InstanceSpec(_Part):
    """One instance. Without a command it waits for ranks of MPI, which whoever has the job's token may start in it."""

    magic: Literal["headrace-instance"] = "headrace-instance"
    version: Literal[1] = 1
    run: str
    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict, repr=False)
    places: tuple[BindMount, ...] = ()
    folder: str = "/"
    log: str
    log_limit_bytes: int = Field(default=32 << 20, gt=0)
    is_apart: bool = True
    """It has mounts and a host name of its own, which takes root."""
    shared_memory_bytes: int | None = None
    memory_bytes: int | None = None
    """What its programs may have together at most; `None`: as much as there is."""
    cpus: float | None = None
    token: str = Field(default="", repr=False)
    """The job's; with it ranks may be started here. Empty: nobody may."""

    def to_json(self) -> bytes:
        """For its file."""
        return json.dumps(self.model_dump(mode="json")).encode()


class InstanceReport(_Part):
    """How an instance stands. `begun` is said before anything is done; `at` is in RFC 3339."""

    magic: Literal["headrace-instance-state"] = "headrace-instance-state"
    version: Literal[1] = 1
    run: str
    state: Literal["begun", "up", "ended"]
    pid: int = 0
    """Of the program, once it runs."""
    exit_code: int | None = None
    message: str = ""
    is_out_of_memory: bool = False
    """The kernel killed a process of it, since it had reached its limit."""
    at: str = ""

    def to_json(self) -> bytes:
        """For its file."""
        return json.dumps(self.model_dump(mode="json")).encode()


def read_instance_spec(path: Path) -> InstanceSpec:
    """The spec in a file. Raises `CorruptDataError`, which tells nothing of what stands there."""
    try:
        with path.open("rb") as file:
            return InstanceSpec.model_validate_json(file.read(_LARGEST_BYTES))
    except (OSError, ValidationError):
        raise CorruptDataError.of(f"{path} holds no spec of an instance") from None


def read_instance_report(path: Path) -> InstanceReport | None:
    """The last report of an instance; `None` when it has not begun."""
    try:
        with path.open("rb") as file:
            return InstanceReport.model_validate_json(file.read(_LARGEST_STATE_BYTES))
    except (OSError, ValidationError):
        return None
