"""Messages between a mount process and the command that starts it: its spec in, one answer back.

Both travel through inherited file descriptors. A spec holds credentials, so it is never in an argument, in the
environment or in a file with a name; the supervisor keeps its descriptor for the next mount process, unread.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from pydantic import SecretStr

from headrace.errors import CLASSES, EngineError, HeadraceError
from headrace.exits import exit_code
from headrace.settings.cluster import TlsConfig
from headrace.settings.copying import CopyConfig
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig, Limits, TransferConfig, plain_json
from headrace.settings.key_sources import KeySource
from headrace.settings.model import Model
from headrace.settings.origins import OriginConfig
from headrace.settings.roles import CopySettings, MasterSettings, WorkerSettings

_LONGEST = 64 << 20


class ProcessSpec(Model):
    """The settings of a process from its start on, credentials among them."""

    def to_descriptor(self) -> int:
        """An inheritable descriptor of memory that holds the spec and has no name in any file system."""
        descriptor = os.memfd_create("headrace-spec", 0)
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as file:
            file.write(plain_json(self))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    @classmethod
    def from_descriptor(cls, descriptor: int) -> Self:
        """The spec; the descriptor is closed, and its memory gone unless a supervisor keeps it."""
        with os.fdopen(descriptor, "rb") as file:
            # The place in the file is shared with everybody who read it before.
            file.seek(0)
            return cls.model_validate_json(file.read(_LONGEST))


class MemberSpec(Model):
    """The membership of a mount in a cluster: where its master is, and how it is called there."""

    master: str
    mount_id: str


class MountSpec(ProcessSpec):
    """Everything that a mount process needs to know."""

    config: EngineConfig
    keys: tuple[KeySource, ...] = ()
    mountpoint: Path
    settings: MountSettings
    registry_directory: Path
    log_file: Path | None
    member: MemberSpec | None = None
    keeper: Path | None = None
    """The socket of the node's keeper, for the supervisor."""


class MasterSpec(ProcessSpec):
    """Everything that a master needs to know."""

    settings: MasterSettings
    config: EngineConfig
    state_directory: Path
    token: SecretStr
    token_file: Path | None = None
    keys: tuple[KeySource, ...] = ()


class WorkerSpec(ProcessSpec):
    """Everything that a worker needs to know; view and block size of `config` are the master's to tell."""

    settings: WorkerSettings
    config: EngineConfig
    id: str
    master: str
    token: SecretStr
    keys: tuple[KeySource, ...] = ()


class CopySpec(ProcessSpec):
    """Everything that a copy needs to know; of a cluster's dataset the master tells origins, view and block size."""

    settings: CopySettings
    config: CopyConfig | None
    target: OriginConfig
    limits: Limits
    transfer: TransferConfig
    state_directory: Path
    part_bytes: int
    node: str
    token: SecretStr | None = None
    token_file: Path | None = None
    keys: tuple[KeySource, ...] = ()
    tls: TlsConfig | None = None


class Answer(Model):
    """The mount is ready, or why it is not."""

    mode: str = ""
    files: int = 0
    size_bytes: int = 0
    error_kind: str | None = None
    error: str = ""
    hint: str | None = None

    @classmethod
    def of_error(cls, error: BaseException) -> Self:
        """The answer when the mount failed."""
        if isinstance(error, HeadraceError):
            return cls(error_kind=error.kind, error=error.message, hint=error.hint)
        return cls(error_kind="Unexpected", error=f"{type(error).__name__}: {error}")

    def raise_if_failed(self) -> Self:
        """Raises the error that the mount process met."""
        if self.error_kind is None:
            return self
        raise self.as_error()

    def as_error(self) -> HeadraceError:
        """The error that the mount process met."""
        return CLASSES.get(self.error_kind or "", EngineError).of(self.error, hint=self.hint)

    @property
    def exit_code(self) -> int:
        """The exit code of the mount process."""
        if self.error_kind is None:
            return 0
        return int(exit_code(self.as_error()))

    def send(self, descriptor: int) -> None:
        """Writes the answer as a line and closes the descriptor. A listener that has gone is none of our business."""
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(self.model_dump_json() + "\n")
        except BrokenPipeError:
            return


def read_answer(descriptor: int) -> Answer | None:
    """The answer; `None` when the process, and those that were to take its place, ended without one."""
    with os.fdopen(descriptor, "rb") as file:
        text = file.readline(_LONGEST)
    return Answer.model_validate_json(text) if text else None
