"""Files for a cluster to serve: reproducible bytes, and the hashes that every reader's bytes are compared with."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headrace.testing.buckets import put_object
from headrace.testing.cluster.reader import FileRead
from headrace.testing.made_files import MadeFiles


@dataclass
class Content:
    """The content of the bucket: for each file its size and its SHA-256."""

    sizes: dict[str, int] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes.values())

    def below(self, folder: str) -> int:
        """The bytes of all files of a folder."""
        return sum(size for name, size in self.sizes.items() if name.startswith(f"{folder}/"))

    def put(self, bucket: Path, files: Mapping[str, bytes]) -> None:
        """Writes objects into a bucket's folder and remembers them."""
        for name, data in files.items():
            put_object(bucket, name, data)
        self.remember(files)

    def remember(self, files: Mapping[str, bytes]) -> None:
        """Takes files that lie elsewhere for what must be read."""
        for name, data in files.items():
            self.sizes[name] = len(data)
            self.hashes[name] = hashlib.sha256(data).hexdigest()

    def wrong(self, reads: list[FileRead]) -> list[FileRead]:
        """The reads that failed, or brought other bytes than the bucket holds."""
        return [read for read in reads if read.error or self.hashes.get(read.path) != read.sha256]


def make_files(count: int, size_bytes: int, *, folder: str = "train") -> MadeFiles:
    """`count` files of about `size_bytes` each, no two alike and none of a round size."""
    return MadeFiles(
        {
            f"{folder}/class-{number % 4}/file-{number:04}.bin": partial(
                _bytes_of, f"{folder}/{number}", size_bytes + 4099 * number % 65_536
            )
            for number in range(count)
        }
    )


def _bytes_of(seed: str, size_bytes: int) -> bytes:
    return random.Random(seed).randbytes(size_bytes)  # noqa: S311 - no secret
