"""The orders of an operation's process, and its report. docs/format/local-state.md describes both.

A runner spec may hold values of Secrets, for the environment of a program: it is written to a private file, which the
process takes away as soon as it has read it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from headrace.errors import CorruptDataError
from headrace.process.deferred_model import DeferredModel

_LARGEST_BYTES = 16 << 20
_LARGEST_STATE_BYTES = 64 << 10


class _Part(DeferredModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class BindMount(_Part):
    """A bind mount before a program begins: `part` of `source` at `target`."""

    source: str
    target: str
    part: str = ""
    read_only: bool = False


class ProgramRun(_Part):
    """One program. `environment` is all that it gets; `restarts` how often it may be tried again after a failure."""

    name: str
    command: tuple[str, ...] = Field(min_length=1)
    environment: dict[str, str] = Field(default_factory=dict, repr=False)
    places: tuple[BindMount, ...] = ()
    folder: str = "/"
    user: int | None = None
    group: int | None = None
    restarts: int = Field(default=0, ge=0)


class RunnerSpec(_Part):
    """Stages, one after the other; the programs of a stage run at the same time."""

    magic: Literal["headrace-errand"] = "headrace-errand"
    version: Literal[1] = 1
    run: str
    stages: tuple[tuple[ProgramRun, ...], ...]

    def to_json(self) -> bytes:
        """For its file."""
        return json.dumps(self.model_dump(mode="json")).encode()


class RunnerState(_Part):
    """How it stands. `message` says why it failed; `exit_code` is that of the program that did."""

    magic: Literal["headrace-errand-state"] = "headrace-errand-state"
    version: Literal[1] = 1
    run: str
    state: Literal["running", "ended"]
    exit_code: int | None = None
    message: str = ""
    ended: str = ""

    def to_json(self) -> bytes:
        """For its file."""
        return json.dumps(self.model_dump(mode="json")).encode()


def read_runner_spec(path: Path) -> RunnerSpec:
    """The runner spec of a file. Raises `CorruptDataError`, which tells nothing of what stands there."""
    try:
        with path.open("rb") as file:
            return RunnerSpec.model_validate_json(file.read(_LARGEST_BYTES))
    except (OSError, ValidationError):
        raise CorruptDataError.of(f"{path} is no errand") from None


def read_runner_state(path: Path) -> RunnerState | None:
    """The last report of a process; `None` when it has not begun."""
    try:
        with path.open("rb") as file:
            return RunnerState.model_validate_json(file.read(_LARGEST_STATE_BYTES))
    except (FileNotFoundError, ValidationError):
        return None
