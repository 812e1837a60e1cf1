"""An open file of a dataset, as Python's own raw binary file: seekable, read-only, and read straight into memory."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING

from headrace.engine.handles import Engine
from headrace.errors import DirectoryInsteadError, ReadOnlyError

if TYPE_CHECKING:
    from typing_extensions import Buffer


__all__ = ["BufferedDatasetFile", "DatasetFile"]


class DatasetFile(io.RawIOBase):
    """One version of one file, read-only and seekable; `size` is its length in bytes, `name` its path.

    `readinto` fills the caller's memory with no copy in between. For many small reads, `io.BufferedReader(file)` is the
    better choice. A read raises `StaleDataError` when the object was overwritten and the bytes are not cached, and
    the other errors of a `Dataset`'s reads. Threads may share a file, but it has one position: use `pread` there.
    """

    def __init__(self, engine: Engine, path: bytes) -> None:
        super().__init__()
        entry = engine.stat(path)
        if entry.kind == "directory":
            raise DirectoryInsteadError.of(f"{os.fsdecode(path) or '/'} is a folder, not a file")
        self._engine = engine
        self._entry = entry
        self._position = 0
        self.size = entry.size
        self.name = os.fsdecode(path)

    @property
    def mode(self) -> str:
        """Always `rb`."""
        return "rb"

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position of the next byte."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position, and returns it; it may lie beyond the end."""
        self._check_open()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence)
        if base is None:
            raise ValueError(f"whence {whence} is none of SEEK_SET, SEEK_CUR and SEEK_END")
        if base + offset < 0:
            raise OSError(errno.EINVAL, f"a position before the start of {self.name}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills the buffer from the position on; returns the number of bytes, smaller only at the end of the file."""
        self._check_open()
        if self._position >= self.size:
            return 0
        count = self._engine.read_version(self._entry, self._position, buffer)
        self._position += count
        return count

    def readall(self) -> bytes:
        """Everything from the position to the end, in one request."""
        self._check_open()
        content = bytearray(max(self.size - self._position, 0))
        count = self.readinto(content) if content else 0
        return bytes(memoryview(content)[:count])

    def pread(self, length: int, offset: int) -> bytes:
        """`length` bytes from `offset` on, fewer at the end of the file; the position stays where it is."""
        self._check_open()
        content = bytearray(max(min(length, self.size - offset), 0))
        count = self._engine.read_version(self._entry, offset, content) if content else 0
        return bytes(memoryview(content)[:count])

    def write(self, _buffer: Buffer, /) -> int:
        """Raises `ReadOnlyError`."""
        raise ReadOnlyError.of(f"cannot write to {self.name}: datasets are read-only")

    def truncate(self, _size: int | None = None, /) -> int:
        """Raises `ReadOnlyError`."""
        raise ReadOnlyError.of(f"cannot truncate {self.name}: datasets are read-only")

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name} is closed")


class BufferedDatasetFile(io.BufferedReader):
    """A `DatasetFile` behind a buffer, for many small reads: what the fsspec file system opens."""

    def __init__(self, file: DatasetFile, buffer_size: int) -> None:
        super().__init__(file, buffer_size)
        self.size = file.size
        self.path = file.name
