"""A dataset as training code uses it: names, whole files into memory, and the order in which they will be needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headrace.client import tree_names
from headrace.client.open_file import DatasetFile
from headrace.client.opening import Opened, open_any
from headrace.engine.status import EngineReport, JobReport, RefreshReport
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Dataset", "open_dataset"]

_WARM_POLL_S = 3600.0


def open_dataset(
    origin: str | os.PathLike[str] | Sequence[str],
    *,
    cache: str | Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    secret_file: str | os.PathLike[str] | None = None,
    exclude: Sequence[str] | None = None,
    **settings: Any,
) -> Dataset:
    """The dataset at an origin (`s3://bucket/prefix`, `/path`, several `NAME=URI`), a mountpoint, or a mount's name.

    `cache` is `PATH:QUOTA[:MEM|SSD|HDD]`, once or several times, fastest first; without it, half of the free space
    below the user's cache folder. `options` are those of the origin, such as `endpoint`; `secret_file` is a file or
    folder with credentials; `exclude` are patterns of files and folders to leave out, as in a `.gitignore`. Further
    `settings` are those of the configuration file's `[dataset]` table: `memory`,
    `block_size`, `read_ahead`, `eviction`, and so on. A mount has its settings already, and takes none here.

    Returns once the origin is listed. Raises `ConfigError` for a wrong address, option or quota, `FileNotFoundError`
    when there is no such bucket, folder or mount, `PermissionError` when the origin refuses the credentials,
    `OriginUnreachableError` when it cannot be reached, and `BusyError` when another dataset has the cache folder.

    Safe to use in threads and in forked and spawned workers: each process attaches to the one that owns the cache. A
    pickle carries the arguments as they were given; give credentials by `secret_file`, `env:NAME` or `@FILE` to keep
    them out of it.
    """
    arguments = {
        "cache": cache,
        "options": dict(options) if options else None,
        "exclude": tuple(exclude) if exclude is not None else None,
        "secret_file": Path(secret_file) if secret_file is not None else None,
        **settings,
    }
    return Dataset(origin, arguments)


class Dataset:
    """An open dataset, as `open_dataset` returns it; a context manager that closes it.

    Paths are text below its root, without a leading slash. Every read may raise `FileNotFoundError`, `StaleDataError`
    when the object was overwritten after the snapshot, `CorruptDataError`, and the errors of an origin that refuses
    or cannot be reached; all are `HeadraceError`. A read through a mount's process waits for up to 60 seconds while
    that process is replaced, then raises `DeadlineError`.
    """

    def __init__(self, origin: Any, arguments: Mapping[str, Any]) -> None:
        self._arguments = (origin, dict(arguments))
        self._opened: Opened = open_any(origin, **arguments)
        self._root = tree_names.encode(self._opened.inside)
        self._when_closed: Callable[[], object] | None = None
        """Who is to be told that this dataset is of no use any more."""

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self._opened.name

    @property
    def role(self) -> str:
        """`owner` when this process holds the cache, `attached` when it reads through the process that does."""
        return self._opened.engine.role

    @property
    def mountpoint(self) -> Path | None:
        """The mountpoint with the same files, when the dataset was reached through its mount."""
        if self._opened.mountpoint is None:
            return None
        return Path(self._opened.mountpoint) / self._opened.inside

    def files(self, pattern: str = "**") -> list[str]:
        """The paths of the files that match, sorted within each folder: `*` within a name, `**` across folders.

        Answered from the snapshot, without a request to the origin.
        """
        skipped = len(self._root) + 1 if self._root else 0
        found = tree_names.matching(self._opened.engine, self._root, pattern)
        return [tree_names.decode(entry.path[skipped:]) for entry in found]

    def size(self, path: str) -> int:
        """The size of a file in bytes, as the snapshot has it."""
        return self._opened.engine.stat(self._full(path)).size

    def open(self, path: str) -> DatasetFile:
        """A raw binary file, of the version that the snapshot has now; `readinto` copies nothing in between."""
        return DatasetFile(self._opened.engine, self._full(path))

    def read(self, path: str) -> bytes:
        """The bytes of a whole file."""
        with self.open(path) as file:
            return file.readall()

    def read_many(
        self, paths: Sequence[str], *, out: Buffer | Sequence[Buffer] | None = None
    ) -> list[memoryview]:
        """Whole files, fetched side by side without the interpreter's lock; a view of each file's bytes, in order.

        `out` is where they land: one writable buffer (a bytearray, a numpy array, pinned memory) that takes them one
        after another without gaps, or a list of buffers, one for each file. The views point into it; without `out`,
        each file gets memory of its own. Raises `ValueError` when it is too small or read-only, and the first error
        of a read.
        """
        full = [self._full(path) for path in paths]
        sizes = [self._opened.engine.stat(path).size for path in full]
        places = _places(out, sizes)
        counts = self._opened.engine.read_many(full, [0] * len(full), places)
        return [place[:count] for place, count in zip(places, counts, strict=True)]

    def prefetch(self, order: Iterable[str]) -> None:
        """Announces the order in which this process (or its workers) will read files, so that misses are fetched early.

        Returns at once. Each process has one order, and the next call replaces it; reads of any process move it on.
        At most a quarter of the cache, or half of `memory` if that is more, is fetched ahead of the reader. Errors of
        fetching ahead are not raised here: the read meets them. Raises `FileNotFoundError` for an unknown path.
        """
        self._opened.engine.prefetch([self._full(path) for path in order])

    def warm(self, paths: Iterable[str] = ()) -> JobReport:
        """Brings files and folders (all, without `paths`) into the cache, and waits until they are there.

        Raises `HeadraceError` when not every byte is in: the cache is too small, or a file could not be read. Loaded
        files stay loaded, and the next call goes on from there. Interrupting it (Ctrl-C) cancels the warm-up.
        """
        wanted = [self._full(path) for path in paths] or [self._root]
        job = self._opened.engine.warm(wanted)
        try:
            while not job.wait(_WARM_POLL_S):
                pass
        except BaseException:
            job.cancel()
            raise
        report = job.progress()
        if not report.complete:
            first = f": {report.errors[0]}" if report.errors else ""
            raise HeadraceError.of(
                f"warm-up of {self.name} is incomplete: {report.done_files} of {report.total_files} files{first}"
            )
        return report

    def evict(self, paths: Iterable[str]) -> int:
        """Drops files and folders from the cache; returns the number of bytes that became free."""
        return self._opened.engine.evict([self._full(path) for path in paths])

    def refresh(self) -> RefreshReport:
        """Lists the origin again; returns what changed. Files that are open keep their version."""
        return self._opened.engine.refresh()

    def status(self) -> EngineReport:
        """The cached bytes, and the bytes read from each source, since the process that owns the cache started."""
        return self._opened.engine.status()

    def close(self) -> None:
        """Closes the dataset; the cache stays. Further calls raise `ValueError`."""
        if self._when_closed is not None:
            self._when_closed()
        self._opened.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dataset, self._arguments)

    def __repr__(self) -> str:
        return f"<headrace.Dataset {self.name}>"

    def _full(self, path: str) -> bytes:
        below = tree_names.encode(path)
        return b"/".join(part for part in (self._root, below) if part)


def _places(out: Buffer | Sequence[Buffer] | None, sizes: Sequence[int]) -> list[memoryview]:
    """A writable place for each file."""
    if out is None:
        return [memoryview(bytearray(size)) for size in sizes]
    if isinstance(out, (list, tuple)):
        places = [_writable(buffer) for buffer in out]
        if len(places) != len(sizes):
            raise ValueError(f"{len(sizes)} files, but {len(places)} buffers")
        for number, (place, size) in enumerate(zip(places, sizes, strict=True)):
            if len(place) < size:
                raise ValueError(f"buffer {number} holds {len(place)} bytes, its file {size}")
        return [place[:size] for place, size in zip(places, sizes, strict=True)]
    whole = _writable(out)
    if len(whole) < sum(sizes):
        raise ValueError(f"the buffer holds {len(whole)} bytes, the files {sum(sizes)}")
    ends = [sum(sizes[:1])]
    for size in sizes[1:]:
        ends.append(ends[-1] + size)
    return [whole[end - size : end] for end, size in zip(ends, sizes, strict=False)]


def _writable(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    if view.readonly:
        raise ValueError("a buffer to read into must be writable")
    return view.cast("B")
