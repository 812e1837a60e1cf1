"""The files of the local backend: one folder, open to its owner alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from headrace.errors import ConfigError, RefusedError
from headrace.settings.environment import Environment
from headrace.trusted_folders import make_folder

# The kernel's limit for the address of a Unix socket, its closing zero included, is 108.
_LONGEST_ADDRESS = 107

LOCK = "supervisor.lock"
"""The name of the lock, beside the database."""


class BackendLayout(NamedTuple):
    """The files of one local backend."""

    folder: Path

    @classmethod
    def of(cls, environment: Environment) -> BackendLayout:
        """Those of this user, or of `HEADRACE_STATE_DIR`."""
        return cls(environment.state_directory.absolute() / "local")

    @property
    def database(self) -> Path:
        """Objects, events, and what was made of the world."""
        return self.folder / "objects.db"

    @property
    def lock(self) -> Path:
        """Held by the process that may change the world."""
        return self.folder / LOCK

    @property
    def guard_lock(self) -> Path:
        """Held while a supervisor that was killed is started anew."""
        return self.folder / "guard.lock"

    @property
    def taken_down(self) -> Path:
        """There from the moment in which somebody takes the backend down: no supervisor is started anew."""
        return self.folder / "taken-down"

    @property
    def home_network(self) -> Path:
        """Says in which network the supervisor runs, for who starts the next one from within a node's."""
        return self.folder / "network"

    @property
    def revived(self) -> Path:
        """Touched whenever somebody other than a guard starts a supervisor anew."""
        return self.folder / "revived"

    @property
    def log(self) -> Path:
        """The supervisor's log."""
        return self.folder / "supervisor.log"

    @property
    def nodes(self) -> Path:
        """A folder for each node: state of its roles, mounts, logs."""
        return self.folder / "nodes"

    @property
    def training(self) -> Path:
        """A folder for each training job."""
        return self.folder / "training"

    @property
    def socket(self) -> Path:
        """The socket of the supervisor. Raises `ConfigError` when the kernel could not bind it."""
        path = self.folder / "supervisor.sock"
        if len(bytes(path)) > _LONGEST_ADDRESS:
            raise ConfigError.of(
                f"{path} is too long for the address of a socket",
                hint="set HEADRACE_STATE_DIR to a shorter folder",
            )
        return path

    def make(self) -> None:
        """Makes the folder. Raises `ConfigError`, and `RefusedError` for one that other users could change."""
        try:
            make_folder(self.folder)
            self.folder.chmod(0o700)
        except RefusedError:
            raise
        except OSError as error:
            raise ConfigError.of(
                f"cannot make {self.folder}: {error.strerror}",
                hint="set HEADRACE_STATE_DIR to another folder",
            ) from None
