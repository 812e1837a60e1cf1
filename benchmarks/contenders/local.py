"""The local file system: a plain copy of the bucket's files. The mark that all others are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders.contract import CacheSpace, Kind, Source


class LocalTree:
    """A folder; there is nothing to take down."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.command = "plain files"

    def processes(self) -> Sequence[int]:
        return ()

    def warm(self, seconds: float) -> str | None:  # noqa: ARG002
        return "nothing to do"

    def close(self) -> None:
        """Nothing: the files belong to the dataset."""


class Local:
    """Reads the copy below `root`, one folder for each bucket."""

    name = "local"
    kind = Kind.LOCAL
    keeps_disk_cache = True
    obeys_quota = False

    def __init__(self, root: Path) -> None:
        self._root = root

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        place = self._root.resolve()
        table = [line.split(" ") for line in Path("/proc/self/mounts").read_text().splitlines()]
        holding = [(len(fields[1]), fields[2]) for fields in table if place.is_relative_to(fields[1])]
        return max(holding)[1]

    def mount(self, source: Source, mountpoint: Path, cache: CacheSpace) -> LocalTree:  # noqa: ARG002
        return LocalTree(self._root / source.bucket / source.prefix)
