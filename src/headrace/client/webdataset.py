"""WebDataset over `headrace://`: shards are opened through the fsspec file system.

WebDataset asks a table of its own who opens the addresses of a scheme; `register` puts `headrace` there.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import fsspec
from webdataset.gopen import gopen_schemes

from headrace.client.addresses import PROTOCOL

__all__ = ["register"]


def register(**storage_options: Any) -> None:
    """Lets `webdataset.WebDataset("headrace://NAME/shards/{000..099}.tar")` read, in this process and those it forks.

    The storage options are those of the file system, for shards that are written `headrace:///shards/…`; the next call
    replaces them. Call it at the top of a program, where loader workers that are spawned come by as well.
    """

    def opened(url: str, mode: str = "rb", _buffer_bytes: int = -1, **_: Any) -> BinaryIO:
        file_system, path = fsspec.url_to_fs(url, **storage_options)
        opened: BinaryIO = file_system.open(path, mode)
        return opened

    gopen_schemes[PROTOCOL] = opened
