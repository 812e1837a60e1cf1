"""The fsspec protocol `headrace`: pandas, pyarrow, datasets, dask, zarr and others read through it.

`headrace://NAME/path` is the dataset NAME that is mounted on this machine. `headrace:///path` is a path in the dataset
that the storage options name: `{"mountpoint": "/mnt/data"}`, or `{"origin": "s3://bucket/prefix", "cache":
"/ssd/headrace:100Gi"}`. With such options everything behind `headrace://` is a path in that dataset. The names that
`ls`, `find` and `glob` return begin as the address did, so each opens again behind `headrace://` with the same storage
options. Everything that would write raises `ReadOnlyError`.

How each library reads, and which versions were run: [libraries.md](../libraries.md).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from glob import has_magic
from typing import Any, ClassVar

from fsspec.asyn import AsyncFileSystem, get_loop

from headrace.client import tree_names
from headrace.client.addresses import PROTOCOL, OneRoot, address_of, path_of, roots_of
from headrace.client.cached_file import CachedDatasetFile
from headrace.client.dataset import Dataset
from headrace.client.open_file import BufferedDatasetFile, DatasetFile
from headrace.engine.handles import Engine, TreeEntry
from headrace.errors import ConfigError, DirectoryInsteadError, ReadOnlyError

__all__ = ["HeadraceFileSystem"]

_DEFAULT_BLOCK_BYTES = 4 << 20
_COPY_BYTES = 16 << 20
_FOLDER = {"size": 0, "type": "directory", "mtime": 0.0, "etag": None}


class HeadraceFileSystem(AsyncFileSystem):
    """A read-only fsspec file system over one dataset, or over all that are mounted on this machine.

    Give an `origin` with its `cache` and `options` (and, in `settings`, whatever else `open_dataset` takes), or a
    `mountpoint`, or the `name` of a mounted dataset: paths are those in that dataset, and `dataset` is the dataset.
    Without any of them, the first part of a path is the name of a mounted dataset. Pickles carry the arguments; forked
    and spawned workers, and others that open the same origin with the same cache, attach to the process that owns it.
    """

    protocol: ClassVar[str] = PROTOCOL
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
        arguments = {"cache": cache, "options": options, **(settings or {})}
        self._roots = roots_of(origin, mountpoint, name, arguments)
        if isinstance(self._roots, OneRoot):
            self._roots.dataset._when_closed = self._leave_cache

    @property
    def dataset(self) -> Dataset:
        """The dataset that the storage options name; raises `ConfigError` when they name none."""
        if not isinstance(self._roots, OneRoot):
            raise ConfigError.of(
                "this file system is over all mounted datasets", hint="open one with headrace.open_dataset"
            )
        return self._roots.dataset

    # --- addresses --------------------------------------------------------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return path_of(os.fspath(path))

    def unstrip_protocol(self, name: str) -> str:
        """The address of a path, which leads there again with the same storage options."""
        return address_of(self._roots.anchored(path_of(name)))

    async def _glob(self, path: str, maxdepth: int | None = None, **kwargs: Any) -> Any:
        # What is listed in the root begins with a slash, so a pattern must that begins there.
        pattern = path.removeprefix(f"{PROTOCOL}://")
        if has_magic(pattern.partition("/")[0]):
            pattern = self._roots.anchored(pattern)
        return await super()._glob(pattern, maxdepth=maxdepth, **kwargs)

    # --- asynchronous and synchronous reads over the same engine ----------------------------------------

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """`name`, `size` in bytes, `type`, `mtime` (seconds since 1970) and `etag` of one path."""
        stripped = path_of(path)
        place = self._place(stripped)
        return _FOLDER | {"name": stripped} if place is None else _info(stripped, place[0].stat(place[1]))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """The entries of a folder, or the file itself: their `info`, or only names with `detail=False`."""
        found = list(self._entries(path_of(path)))
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
        return self._kind(path) is not None

    def isdir(self, path: str) -> bool:
        """True for a folder."""
        return self._kind(path) == "directory"

    def isfile(self, path: str) -> bool:
        """True for a file."""
        return self._kind(path) == "file"

    def modified(self, path: str) -> datetime:
        """The time of the object's last change."""
        engine, full = self._file(path)
        return datetime.fromtimestamp(engine.stat(full).mtime_ns / 1e9, UTC)

    def ukey(self, path: str) -> str:
        """A text that changes when the file's content does."""
        engine, full = self._file(path)
        entry = engine.stat(full)
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
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        cache_type: str | None = None,
        cache_options: dict[str, Any] | None = None,
        **_: Any,
    ) -> BufferedDatasetFile | CachedDatasetFile:
        if mode != "rb":
            raise ReadOnlyError.of(f"cannot open {path} with mode '{mode}': datasets are read-only")
        size = block_size if isinstance(block_size, int) else _DEFAULT_BLOCK_BYTES
        if cache_type is not None:
            cache = {"cache_type": cache_type, "cache_options": cache_options or {}}
            return CachedDatasetFile(self, path_of(path), self._raw(path), size, **cache)
        buffered = BufferedDatasetFile(self._raw(path), buffer_size=max(min(size, _DEFAULT_BLOCK_BYTES), 1))
        buffered.path = path_of(path)
        return buffered

    def open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        """An open file, binary or text."""
        if set(mode) & set("wax+"):
            raise ReadOnlyError.of(f"cannot open {path} with mode '{mode}': datasets are read-only")
        return super().open(path, mode, *args, **kwargs)

    # --- what is not there ------------------------------------------------------------------------------

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ReadOnlyError.of("datasets are read-only")

    async def _refuse_later(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    rm = rm_file = mkdir = makedirs = rmdir = touch = pipe = pipe_file = put = put_file = _refuse
    mv = cp_file = copy = move = rename = delete = upload = write_bytes = write_text = _refuse
    _rm = _rm_file = _mkdir = _makedirs = _pipe = _pipe_file = _put = _put_file = _cp_file = _copy = (
        _refuse_later
    )

    # --- inside -----------------------------------------------------------------------------------------

    def _leave_cache(self) -> None:
        """Has fsspec make another file system for whoever asks for one like this, which it keeps otherwise."""
        kept = type(self)._cache
        if kept.get(token := self._fs_token) is self:
            kept.pop(token, None)

    @property
    def loop(self) -> Any:
        """The event loop of the synchronous calls; a forked child gets its own."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._loop = None if self.asynchronous else get_loop()
        return self._loop

    def _place(self, path: str) -> tuple[Engine, bytes] | None:
        """The engine and its form of a path; `None` for the folder of all datasets."""
        found = self._roots.find(path_of(path))
        return None if found is None else (found[0]._opened.engine, found[0]._full(found[1]))

    def _file(self, path: str) -> tuple[Engine, bytes]:
        """The same of what must be in a dataset."""
        place = self._place(path)
        if place is None:
            raise DirectoryInsteadError.of("headrace:// is the folder of all datasets, not a file")
        return place

    def _entries(self, path: str) -> Iterator[dict[str, Any]]:
        """What `ls` lists."""
        place = self._place(path)
        if place is None:
            yield from (_FOLDER | {"name": name} for name in self._roots.names())
            return
        engine, full = place
        entry = engine.stat(full)
        if entry.kind != "directory":
            yield _info(path, entry)
            return
        for child in tree_names.children(engine, full):
            name = tree_names.decode(child.path.rpartition(b"/")[2])
            yield _info(f"{path}/{name}", child)

    def _raw(self, path: str) -> DatasetFile:
        return DatasetFile(*self._file(path))

    def _kind(self, path: str) -> str | None:
        try:
            place = self._place(path)
            return "directory" if place is None else place[0].stat(place[1]).kind
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _ranges(self, paths: list[str], starts: list[Any], ends: list[Any]) -> list[Any]:
        """One batch for each dataset: nearly always one."""
        batches: dict[int, tuple[Engine, list[tuple[int, bytes, int, int]]]] = {}
        for place, (path, start, end) in enumerate(zip(paths, starts, ends, strict=True)):
            engine, full = self._file(path)
            begin, stop, _step = slice(start, end).indices(engine.stat(full).size)
            batches.setdefault(id(engine), (engine, []))[1].append((place, full, begin, stop))
        found: list[Any] = [b""] * len(paths)
        for engine, parts in batches.values():
            buffers = [bytearray(max(stop - begin, 0)) for _, _, begin, stop in parts]
            counts = engine.read_many([part[1] for part in parts], [part[2] for part in parts], buffers)
            for part, buffer, count in zip(parts, buffers, counts, strict=True):
                found[part[0]] = bytes(memoryview(buffer)[:count])
        return found

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
