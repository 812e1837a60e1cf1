"""Addresses of the fsspec protocol as text, and the datasets that they lead to.

The part after `headrace://` is a path. Where the storage options name a dataset, it is a path in that dataset, with
or without a slash before it. Where they name none, its first part is the name of a mounted dataset: `NAME/folder/file`.
So each name that a file system lists leads to the same file again behind `headrace://`, with the same storage options.
"""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from headrace.client.dataset import Dataset
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.errors import ConfigError, MissingFileError
from headrace.settings.environment import Environment

PROTOCOL = "headrace"
_PREFIX = f"{PROTOCOL}://"
_SLASHES = re.compile("//+")
# How long a name is taken for the mount that had it, so that reading many small files does not look for it each time.
_BELIEF_S = 1.0
_HOW_TO_NAME = (
    "write headrace://NAME{path} for the mounted dataset NAME, or give storage options: "
    '{{"mountpoint": "/mnt/data"}}, or {{"origin": "s3://bucket/prefix", "cache": "/ssd/headrace:100Gi"}}'
)


def path_of(address: str) -> str:
    """The path in an address, or the path itself: without a slash at the end, and with single ones between."""
    return _SLASHES.sub("/", address.removeprefix(_PREFIX)).rstrip("/")


def address_of(path: str) -> str:
    """The address of a path."""
    return _PREFIX + path


class Roots(ABC):
    """The datasets of one file system."""

    @abstractmethod
    def anchored(self, path: str) -> str:
        """The form of a path or a pattern that means the same in any program."""

    @abstractmethod
    def find(self, path: str) -> tuple[Dataset, str] | None:
        """The dataset and the path in it; `None` for the folder of all datasets."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names in the folder of all datasets."""


class OneRoot(Roots):
    """The dataset that the storage options name; its root is the root, and what is listed there begins with a slash."""

    def __init__(self, target: Any, arguments: Mapping[str, Any]) -> None:
        self.dataset = Dataset(target, arguments)

    def anchored(self, path: str) -> str:
        """The path with a slash before it: without the storage options, it cannot be taken for a dataset's name."""
        return path if path.startswith("/") else f"/{path}"

    def find(self, path: str) -> tuple[Dataset, str]:
        """Every path is in the one dataset."""
        return self.dataset, path

    def names(self) -> list[str]:
        """Nothing: there is no folder of datasets."""
        return []


class MountedRoots(Roots):
    """The datasets that are mounted on this machine, each a folder of its name.

    In that name, characters that mean something else in an address are written as in a URL: `/` is `%2F`.
    """

    def __init__(self) -> None:
        self._attached: dict[str, _Attachment] = {}

    def anchored(self, path: str) -> str:
        """The path itself."""
        return path

    def find(self, path: str) -> tuple[Dataset, str] | None:
        """The dataset that the first part names. Raises `ConfigError` and `MissingFileError`."""
        if path.startswith("/"):
            raise ConfigError.of(f"{address_of(path)} names no dataset", hint=_HOW_TO_NAME.format(path=path))
        first, _, inside = path.partition("/")
        return (self._mounted(unquote(first)), inside) if first else None

    def names(self) -> list[str]:
        """Each dataset that is mounted here, once."""
        return sorted({quote(entry.name, safe="") for entry in _mounts()})

    def _mounted(self, name: str) -> Dataset:
        known = self._attached.get(name)
        if known is not None and time.monotonic() < known.believed_until_s:
            return known.dataset
        entry = next((each for each in _mounts() if each.name == name), None)
        if known is not None and (entry is None or known.mountpoint == entry.mountpoint):
            # A mount that is gone says so itself when it is read, and may be there again by then.
            dataset, mountpoint = known.dataset, known.mountpoint
        elif entry is None:
            raise MissingFileError.of(
                f"no dataset named '{name}' is mounted here",
                hint="see `headrace status`; a path in the dataset of the storage options is written headrace:///path",
            )
        else:
            dataset, mountpoint = (
                Dataset(entry.mountpoint, {"cache": None, "options": None}),
                entry.mountpoint,
            )
        self._attached[name] = _Attachment(dataset, mountpoint, time.monotonic() + _BELIEF_S)
        return dataset


@dataclass(frozen=True, slots=True)
class _Attachment:
    """A mount that was found under a name, and until when it is believed to be the one of that name."""

    dataset: Dataset
    mountpoint: str
    believed_until_s: float


def _mounts() -> list[Entry]:
    return Registry(Environment.current().runtime_directory).entries()


def roots_of(
    origin: Any, mountpoint: str | os.PathLike[str] | None, name: str | None, arguments: Mapping[str, Any]
) -> Roots:
    """The roots that storage options name. Raises `ConfigError` when they name two."""
    given = {"origin": origin, "mountpoint": mountpoint, "name": name}
    named = [word for word, value in given.items() if value is not None]
    if len(named) > 1 and named != ["origin", "name"]:
        raise ConfigError.of(
            f"the storage options name a dataset by {' and '.join(named)}", hint="give only one of them"
        )
    if not named:
        idle = sorted(word for word, value in arguments.items() if value)
        if idle:
            raise ConfigError.of(
                f"the storage options give {', '.join(idle)}, but no origin that this is for",
                hint='add "origin": "s3://bucket/prefix"',
            )
        return MountedRoots()
    if origin is None:
        return OneRoot(os.fspath(mountpoint) if mountpoint is not None else name, arguments)
    return OneRoot(origin, arguments if name is None else {**arguments, "name": name})
