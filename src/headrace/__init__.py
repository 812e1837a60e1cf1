"""Headrace: a bucket as fast local files.

    import headrace

    with headrace.open_dataset("s3://bucket/train", cache="/ssd/headrace:100Gi") as data:
        files = data.files("**/*.jpg")
        data.prefetch(files)
        images = data.read_many(files[:64])

Importing this package starts no thread and loads neither the native engine nor torch; names are loaded when they are
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.dataset import Dataset, open_dataset
    from headrace.client.filesystem import HeadraceFileSystem
    from headrace.client.open_file import DatasetFile
    from headrace.errors import ConfigError, HeadraceError, StaleDataError

__all__ = [
    "ConfigError",
    "Dataset",
    "DatasetFile",
    "HeadraceError",
    "HeadraceFileSystem",
    "StaleDataError",
    "open_dataset",
]

_HOMES = {
    "ConfigError": "headrace.errors",
    "Dataset": "headrace.client.dataset",
    "DatasetFile": "headrace.client.open_file",
    "HeadraceError": "headrace.errors",
    "HeadraceFileSystem": "headrace.client.filesystem",
    "StaleDataError": "headrace.errors",
    "open_dataset": "headrace.client.dataset",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headrace' has no attribute '{name}'")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
