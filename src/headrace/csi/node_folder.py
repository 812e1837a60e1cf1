"""The places of things below the folder of a node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError, RefusedError
from headrace.trusted_folders import make_folder

_NOT_FOR_OTHERS = ("mounts", "state", "keeper")


@dataclass(frozen=True)
class NodeFolder:
    """The folder that the driver and the mounts of a node share, under the same path in all their pods."""

    path: Path

    def mountpoint(self, dataset: str) -> str:
        """The node's mountpoint of a dataset, `NAMESPACE/NAME`."""
        return str(self.path / "mounts" / dataset)

    def close_to_others(self) -> None:
        """Lets no other user of the node pass: pods get what is theirs by bind mounts, which lead past these folders.

        Kubelet may have made them before, open to everybody. Raises `RefusedError` and `ConfigError`.
        """
        for name in _NOT_FOR_OTHERS:
            folder = self.path / name
            try:
                make_folder(folder).chmod(0o700)
            except RefusedError:
                raise
            except OSError as error:
                raise ConfigError.of(f"cannot close {folder} to other users: {error.strerror}") from None

    @property
    def keeper_socket(self) -> Path:
        """The socket where supervisors find the keeper."""
        return self.path / "keeper" / "keeper.sock"

    @property
    def state(self) -> Path:
        """The driver's own."""
        return self.path / "csi"

    @property
    def state_file(self) -> Path:
        """The file of publications."""
        return self.state / "published"
