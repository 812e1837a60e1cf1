"""Where things are below the folder of a node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NodeFolder:
    """The folder that the driver and the mounts of a node share, under the same path in all their pods."""

    path: Path

    def mountpoint(self, dataset: str) -> str:
        """Where the node's mount of a dataset, `NAMESPACE/NAME`, is."""
        return str(self.path / "mounts" / dataset)

    @property
    def keeper_socket(self) -> Path:
        """Where supervisors find the keeper."""
        return self.path / "keeper" / "keeper.sock"

    @property
    def state(self) -> Path:
        """The driver's own."""
        return self.path / "csi"

    @property
    def state_file(self) -> Path:
        """What is published."""
        return self.state / "published"
