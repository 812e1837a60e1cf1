"""The fsspec protocol `headrace`: pandas, pyarrow, datasets, zarr and webdataset read through it.

`headrace://NAME/path` is the mounted dataset NAME of this machine; `headrace:///path` goes with
`storage_options={"origin": "s3://bucket/prefix", "cache": "/ssd/headrace:100Gi"}` or `{"mountpoint": "/mnt/data"}`.
Everything that would write raises `ReadOnlyError`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from fsspec.asyn import AsyncFileSystem, get_loop

from headrace.client import tree_names
from headrace.client.dataset import Dataset
from headrace.client.open_file import BufferedDatasetFile, DatasetFile
from headrace.engine.handles import Engine, TreeEntry
from headrace.errors import ConfigError, ReadOnlyError

__all__ = ["HeadraceFileSystem"]

_DEFAULT_BLOCK_BYTES = 4 << 20
_COPY_BYTES = 16 << 20


class HeadraceFileSystem(AsyncFileSystem):
    """A read-only fsspec file system over one dataset.

    Give an `origin` with its `cache` and `options` (and, in `settings`, whatever else `open_dataset` takes), or a
    `mountpoint`, or the `name` of a mounted dataset; `ConfigError` without any of them. `dataset` is the dataset behind
    it. Pickles carry the arguments; forked and spawned workers attach to the process that owns the cache.
    """

    protocol: ClassVar[str] = "headrace"
    root_marker = ""
    async_impl = True

    def __init__(
        self,
        origin: str | Sequence[str] | None = None,
        *,
        name: str | None = None,
        mountpoint: str | os.PathLike[str] | None = None,
        cache: str | Sequence[str] | None = None,
        options: dict[str, str] | None = None,
        asynchronous: bool = False,
        loop: Any = None,
        settings: dict[str, Any] | None = None,
        **storage_options: Any,
    ) -> None:
        super().__init__(asynchronous=asynchronous, loop=loop, **storage_options)
        self._pid: int = os.getpid()
        target = origin if origin is not None else (os.fspath(mountpoint) if mountpoint else name)
        if target is None:
            raise ConfigError.of(
                "the headrace file system needs an origin, a mountpoint, or the name of a mounted dataset",
                hint='write headrace://NAME/path, or storage_options={"origin": "s3://bucket/prefix"}',
            )
        arguments = {"cache": cache, "options": options, **(settings or {})}
        if origin is not None and name is not None:
            arguments["name"] = name
        self.dataset = Dataset(target, arguments)

    # --- addresses --------------------------------------------------------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = os.fspath(path)
        if text.startswith("headrace://"):
            text = text.removeprefix("headrace://").partition("/")[2]
        return text.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        if not path.startswith("headrace://"):
            return {}
        name = unquote(path.removeprefix("headrace://").partition("/")[0])
        return {"name": name} if name else {}

    def unstrip_protocol(self, name: str) -> str:
        """`headrace://NAME/path`."""
        path = self._strip_protocol(name)
        return f"headrace://{quote(self.dataset.name, safe='')}/{path}"

    # --- asynchronous and synchronous reads over the same engine ----------------------------------------

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """`name`, `size` in bytes, `type`, `mtime` (seconds since 1970) and `etag` of one path."""
        return _info(self._strip_protocol(path), self._engine.stat(self._full(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """The entries of a folder, or the file itself: their `info`, or only names with `detail=False`."""
        stripped = self._strip_protocol(path)
        entry = self._engine.stat(self._full(path))
        if entry.kind == "directory":
            prefix = f"{stripped}/" if stripped else ""
            found = [
                _info(prefix + tree_names.decode(child.path.rpartition(b"/")[2]), child)
                for child in tree_names.children(self._engine, self._full(path))
            ]
        else:
            found = [_info(stripped, entry)]
        return found if detail else [info["name"] for info in found]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The bytes from `start` to `end`; negative positions count from the end of the file."""
        with self._raw(path) as file:
            begin, stop, _step = slice(start, end).indices(file.size)
            return file.pread(max(stop - begin, 0), begin)

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Many byte ranges, fetched side by side without the interpreter's lock; the bytes in the order of `paths`.

        With `on_error="return"` a range that fails is its error instead of bytes; otherwise the first error is raised.
        """
        if max_gap is not None:
            raise NotImplementedError("max_gap")
        count = len(paths)
        starts = starts if isinstance(starts, list) else [starts] * count
        ends = ends if isinstance(ends, list) else [ends] * count
        if len(starts) != count or len(ends) != count:
            raise ValueError("paths, starts and ends differ in number")
        try:
            return self._ranges(paths, starts, ends)
        except OSError:
            # One of them failed; asked for one by one, each gets its own answer.
            return [
                self._range_or_error(*each, on_error=on_error)
                for each in zip(paths, starts, ends, strict=True)
            ]

    def exists(self, path: str, **_: Any) -> bool:
        """True when there is something at `path`."""
        try:
            self._engine.stat(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def isdir(self, path: str) -> bool:
        """True for a folder."""
        return self._kind(path) == "directory"

    def isfile(self, path: str) -> bool:
        """True for a file."""
        return self._kind(path) == "file"

    def modified(self, path: str) -> datetime:
        """When the object was last changed."""
        return datetime.fromtimestamp(self._engine.stat(self._full(path)).mtime_ns / 1e9, UTC)

    def ukey(self, path: str) -> str:
        """A text that changes when the file's content does."""
        entry = self._engine.stat(self._full(path))
        return f"{entry.size}-{(entry.etag or b'').hex() or entry.mtime_ns}"

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self.info, path, **kwargs)

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        return await asyncio.to_thread(self.ls, path, detail, **kwargs)

    async def _cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        return await asyncio.to_thread(self.cat_file, path, start, end, **kwargs)

    async def _cat_ranges(
        self, paths: list[str], starts: Any, ends: Any, *args: Any, **kwargs: Any
    ) -> list[Any]:
        kwargs.pop("batch_size", None)
        return await asyncio.to_thread(self.cat_ranges, paths, starts, ends, *args, **kwargs)

    async def _exists(self, path: str, **kwargs: Any) -> bool:
        return await asyncio.to_thread(self.exists, path, **kwargs)

    async def _isdir(self, path: str) -> bool:
        return await asyncio.to_thread(self.isdir, path)

    async def _isfile(self, path: str) -> bool:
        return await asyncio.to_thread(self.isfile, path)

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = None, **_: Any) -> None:
        await asyncio.to_thread(self.get_file, rpath, lpath, callback)

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **_: Any) -> None:
        """Copies one file (or makes one folder) to this machine's file system."""
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)  # noqa: PTH103 - lpath may be of any kind that os takes
            return
        if hasattr(lpath, "write"):
            outfile = lpath
        parent = None if outfile is not None else os.path.dirname(lpath)  # noqa: PTH120 - as above
        if parent:
            os.makedirs(parent, exist_ok=True)  # noqa: PTH103 - as above
        with self._raw(rpath) as source:
            if outfile is not None:
                _copy(source, outfile, callback)
                return
            with open(lpath, "wb") as target:  # noqa: PTH123 - as above
                _copy(source, target, callback)

    def _open(
        self, path: str, mode: str = "rb", block_size: int | str | None = None, **_: Any
    ) -> BufferedDatasetFile:
        if mode != "rb":
            raise ReadOnlyError.of(f"cannot open {path} with mode '{mode}': datasets are read-only")
        size = block_size if isinstance(block_size, int) else _DEFAULT_BLOCK_BYTES
        return BufferedDatasetFile(self._raw(path), buffer_size=max(min(size, _DEFAULT_BLOCK_BYTES), 1))

    def open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        """An open file, binary or text."""
        if set(mode) & set("wax+"):
            raise ReadOnlyError.of(f"cannot open {path} with mode '{mode}': datasets are read-only")
        return super().open(path, mode, *args, **kwargs)

    # --- what is not there ------------------------------------------------------------------------------

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ReadOnlyError.of(f"the dataset {self.dataset.name} is read-only")

    async def _refuse_later(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    rm = rm_file = mkdir = makedirs = rmdir = touch = pipe = pipe_file = put = put_file = _refuse
    mv = cp_file = copy = move = rename = delete = upload = write_bytes = write_text = _refuse
    _rm = _rm_file = _mkdir = _makedirs = _pipe = _pipe_file = _put = _put_file = _cp_file = _copy = (
        _refuse_later
    )

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def loop(self) -> Any:
        """The event loop of the synchronous calls; a forked child gets its own."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._loop = None if self.asynchronous else get_loop()
        return self._loop

    @property
    def _engine(self) -> Engine:
        return self.dataset._opened.engine

    def _full(self, path: str) -> bytes:
        return self.dataset._full(self._strip_protocol(path))

    def _raw(self, path: str) -> DatasetFile:
        return DatasetFile(self._engine, self._full(path))

    def _kind(self, path: str) -> str | None:
        try:
            return self._engine.stat(self._full(path)).kind
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _ranges(self, paths: list[str], starts: list[Any], ends: list[Any]) -> list[Any]:
        full = [self._full(path) for path in paths]
        spans = [
            slice(start, end).indices(self._engine.stat(path).size)[:2]
            for path, start, end in zip(full, starts, ends, strict=True)
        ]
        buffers = [bytearray(max(end - start, 0)) for start, end in spans]
        counts = self._engine.read_many(full, [start for start, _ in spans], buffers)
        return [bytes(memoryview(buffer)[:count]) for buffer, count in zip(buffers, counts, strict=True)]

    def _range_or_error(self, path: str, start: Any, end: Any, *, on_error: str) -> Any:
        try:
            return self.cat_file(path, start, end)
        except OSError as error:
            if on_error == "return":
                return error
            raise


def _info(name: str, entry: TreeEntry) -> dict[str, Any]:
    kind = {"directory": "directory", "symlink": "link"}.get(entry.kind, "file")
    return {
        "name": name,
        "size": 0 if kind == "directory" else entry.size,
        "type": kind,
        "mtime": entry.mtime_ns / 1e9,
        "etag": tree_names.decode(entry.etag) if entry.etag else None,
    }


def _copy(source: DatasetFile, target: Any, callback: Any) -> None:
    if callback is not None:
        callback.set_size(source.size)
    buffer = memoryview(bytearray(min(_COPY_BYTES, max(source.size, 1))))
    while count := source.readinto(buffer):
        target.write(buffer[:count])
        if callback is not None:
            callback.relative_update(count)
