"""The native engine. Private: only `headrace.engine` imports it.

Paths are `bytes` below the dataset's root, without a leading slash. Configurations and reports cross as JSON text,
so that one typed model on each side checks them. Every method that may wait releases the GIL; errors are the classes of
`headrace.errors`. An engine belongs to the process that opened it: a forked child gets `ForkedError` from each call
(headrace.engine reopens there).
"""

import builtins
from collections.abc import Sequence
from os import PathLike
from typing import final

from typing_extensions import Buffer

__all__ = [
    "Copier",
    "Engine",
    "Entry",
    "Job",
    "Lister",
    "Mount",
    "Ring",
    "Worker",
    "check_origin",
    "continue_snapshot",
    "decline_keys",
    "error_kinds",
    "forget_keys",
    "is_debug_build",
    "key_demands",
    "metric_definitions",
    "renew_keys",
    "set_log",
    "version",
    "watch_key_demands",
]

def version() -> str: ...
def is_debug_build() -> bool: ...
def continue_snapshot(previous: PathLike[str], path: PathLike[str]) -> None:
    """Gives the snapshot at `path` the inodes that it would have as the successor of the one at `previous`."""

def check_origin(config_json: str) -> None:
    """Asks an origin whether it can be used: within seconds, and without its list. Raises what keeps it from that."""

def error_kinds() -> list[tuple[str, int, str, str]]:
    """(kind, errno, exception, meaning) rows of the one error table."""

def metric_definitions() -> str:
    """The OpenMetrics text of a fresh registry: every name, unit and help."""

def watch_key_demands(names: Sequence[str]) -> int:
    """A descriptor that becomes readable when keys of these names are wanted; the caller closes it. From then on, a
    request whose keys were refused waits for `renew_keys` or `decline_keys`.
    """

def key_demands(names: Sequence[str]) -> list[str]:
    """Those of these names whose keys are wanted since the last call."""

def renew_keys(name: str, config: str) -> None:
    """Has the origins of this name go by the keys of `config`, an origin's configuration as JSON."""

def decline_keys(name: str) -> None:
    """Says that there are no other keys than those that were refused."""

def forget_keys(name: str) -> None:
    """Says that nobody renews the keys of this name any more."""

def set_log(level: str, *, json: bool, file: str | None) -> None: ...

@final
class Entry:
    """One name of the tree. `kind` is "file", "directory" or "symlink"."""

    path: bytes
    kind: str
    size: int
    mtime_ns: int
    inode: int
    etag: bytes | None

@final
class Job:
    """A warm-up or verification under way."""

    def progress(self) -> str:
        """JSON: state, done_bytes, total_bytes, done_files, total_files, origin_bytes, errors (a bounded list)."""
    def wait(self, timeout_s: float) -> bool:
        """True when the job has ended."""
    def cancel(self) -> None: ...

@final
class Mount:
    """A mounted tree; ends when unmounted from outside, too."""

    mountpoint: str
    mode: str
    connection: str | None
    """`major:minor` of the connection, where the mount itself has another."""
    def wait(self, timeout_s: float) -> bool:
        """True when the tree is no longer mounted."""
    def keep(self) -> tuple[str, int, int, int | None]:
        """(words, connection, ledger, apart): what another process needs to go on, `apart` only of a view. The caller
        owns the descriptors."""
    def send_through(self, relay: int) -> None:
        """Invalidations go through a supervisor at the other end of this packet socket, which belongs to the mount
        then."""
    def hand_over(self) -> None:
        """Stops serving without unmounting: programs wait until another process goes on."""
    handed_over: bool
    resumed: int
    """How often another process took this mount over."""
    def unmount(self, *, force: bool) -> None: ...

@final
class Engine:
    """One dataset on this machine: as the owner of its cache, or attached to the process that owns it."""

    @staticmethod
    def open(config_json: str) -> Engine:
        """Own the cache, or attach to the running owner. Takes a first snapshot if there is none."""
    @staticmethod
    def own(config_json: str) -> Engine:
        """Own the cache; `BusyError` when another process does."""
    @staticmethod
    def resume(
        config_json: str, options_json: str, kept: tuple[str, int, int, int | None], relay: int | None
    ) -> tuple[Engine, Mount]:
        """Own the cache of a process that is gone, and go on with its mount. `kept` is what `Mount.keep` returned
        there, `relay` as for `Mount.send_through`; the descriptors belong to the engine from here on."""
    @staticmethod
    def attach(state_directory: str, waits: bool = False) -> Engine:
        """Attach to the owner that serves this state directory; `MissingFileError` when there is none. With `waits`, to
        the successor of an owner that has just died."""

    role: str  # "owner" or "attached"
    def close(self) -> None: ...
    def stat(self, path: bytes) -> Entry: ...
    def list(self, path: bytes, after: bytes | None, limit: int) -> builtins.list[Entry]:
        """Up to `limit` children in name order, those after the name `after`."""
    def read_into(self, path: bytes, offset: int, buffer: Buffer) -> int:
        """Fills `buffer` from `offset`; fewer bytes only at the end of the file."""
    def read_version(self, entry: Entry, offset: int, buffer: Buffer) -> int:
        """As `read_into`, of the version of a file that `stat` told of; `StaleDataError` when it is not to be had."""
    def read_many(
        self, paths: Sequence[bytes], offsets: Sequence[int], buffers: Sequence[Buffer]
    ) -> builtins.list[int]:
        """Reads many ranges at once into caller-owned memory; the bytes read of each."""
    def prefetch(self, paths: Sequence[bytes]) -> None:
        """Tells the order in which whole files will be read; returns at once; replaces the order told before."""
    def warm(self, paths: Sequence[bytes]) -> Job:
        """Files and folders; the empty path is everything."""
    def verify(self, paths: Sequence[bytes]) -> Job: ...
    def evict(self, paths: Sequence[bytes]) -> int:
        """Bytes given back."""
    def refresh(self) -> str:
        """Takes a new snapshot; JSON of what differs."""
    def sync(self, ours: Sequence[bytes], theirs: Sequence[bytes]) -> int:
        """Tries once more to put what was written into the origin; the number of names that were done."""
    def set_view(self, view_json: str) -> None:
        """Goes by this view of the cluster from now on."""
    def adopt_snapshot(self) -> int:
        """Moves readers on to the newest snapshot in the state directory; its version."""
    def status(self) -> str:
        """JSON: see `headrace.engine.status`. Looks at every file of the snapshot."""
    def totals(self) -> tuple[int, int]:
        """Files of the current snapshot and their bytes, at once however many they are; the owner only."""
    def metrics(self) -> str: ...
    def mount(self, mountpoint: str, options_json: str) -> Mount: ...

@final
class Ring:
    """The workers of one view, to be asked for places. `file_id` is 32 hexadecimal digits, `index` counts blocks."""

    def __new__(cls, view_json: str) -> Ring:
        """Raises `ConfigError` for a view that no master writes."""
    def owners(self, file_id: str, index: int, block_size: int) -> builtins.list[str]:
        """Ids of the workers that own a block, the primary first."""
    def ranking(self, file_id: str, index: int, block_size: int, most: int) -> builtins.list[str]:
        """Ids of the first `most` workers for a block, draining ones among them, best first."""

@final
class Worker:
    """One worker of a cluster, at work until it is closed."""

    @staticmethod
    def open(config_json: str) -> Worker:
        """Takes the cache folders and serves; `BusyError` when another process has them."""

    def address(self) -> str:
        """`address:port` that it listens on."""
    def lease_socket(self) -> str:
        """The path of the socket where processes of this machine get descriptors of cached files."""
    def set_view(self, view_json: str) -> None: ...
    def set_pinned(self, files: bytes) -> None:
        """Keeps the files of these ids (32 hexadecimal digits each), and no others, whatever else needs room."""
    def drain(self) -> Job:
        """Starts handing over what is here to those who own it now."""
    def status(self) -> str:
        """JSON: see `headrace.engine.status.WorkerReport`."""
    def metrics(self) -> str: ...
    def close(self) -> None: ...

@final
class Lister:
    """The engine of a master: lists origins into snapshots, and has loads carried out."""

    @staticmethod
    def open(config_json: str) -> Lister:
        """Takes the state directory and a first snapshot."""

    def current(self) -> tuple[int, str, str]:
        """Version, path and JSON report of the snapshot in use."""
    def refresh(self) -> tuple[int, str, str]:
        """Lists the origins again."""
    def origins(self) -> list[tuple[str, str]]:
        """(place in the tree, canonical name) of each origin."""
    def block_size(self) -> int: ...
    def set_view(self, view_json: str) -> None: ...
    def load(
        self,
        paths: Sequence[bytes],
        *,
        replicas: int | None = None,
        bytes_per_second: int | None = None,
        verify: bool = False,
    ) -> Job:
        """Starts having the files at and below `paths` held by their owners; with `verify`, and compared."""
    def evict(self, paths: Sequence[bytes]) -> int:
        """Has every worker drop the files at and below `paths`; the bytes given back."""
    def file_ids(self, paths: Sequence[bytes]) -> bytes:
        """The ids of the files at and below `paths`, in hexadecimal digits."""
    def metrics(self) -> str: ...
    def close(self) -> None: ...

@final
class Copier:
    """A copy of files from a dataset or from storage to a target, in this process."""

    @staticmethod
    def open(config_json: str) -> Copier:
        """Takes the state directory, lists the source and looks whether the target can be written."""

    def start(self) -> Job:
        """Begins, the first time; the same job each time."""
    def set_view(self, view_json: str) -> None:
        """Goes by these workers from now on, where the source is a dataset."""
    def metrics(self) -> str: ...
    def close(self) -> None:
        """Ends it; what was begun stays for the next copy of this state directory, unless the job was cancelled."""
