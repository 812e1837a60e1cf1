"""An open file with one of fsspec's caches in front: what `cache_type` asks for, and what `blockcache` builds upon."""

from __future__ import annotations

from typing import Any

from fsspec.spec import AbstractBufferedFile

from headrace.client.open_file import DatasetFile


class CachedDatasetFile(AbstractBufferedFile):
    """One version of one file, as fsspec's own buffered files are: ranges are fetched through a cache of fsspec."""

    def __init__(self, fs: Any, path: str, file: DatasetFile, block_size: int, **cache: Any) -> None:
        self._file = file
        super().__init__(fs, path, mode="rb", block_size=block_size, size=file.size, **cache)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        super().close()

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._file.pread(end - start, start)
