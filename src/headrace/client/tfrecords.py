"""The records of a TFRecord file, read in large pieces. TensorFlow is not needed.

A record is: length (8 bytes, little-endian), checksum of the length (4), data, checksum of the data (4). The checksums
are left alone: the cache has verified every block already.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import BinaryIO

from headrace.errors import CorruptDataError

__all__ = ["records"]

_HEAD = struct.Struct("<QI")
_TAIL_BYTES = 4
_PIECE_BYTES = 4 << 20


def records(file: io.RawIOBase | BinaryIO, *, name: str) -> Iterator[bytes]:
    """The data of each record of an open TFRecord file, in order; `name` is for messages.

    Raises `CorruptDataError` for a file that is cut short, or is not a TFRecord file.
    """
    reader = io.BufferedReader(file, buffer_size=_PIECE_BYTES)  # type: ignore[type-var]
    size = reader.seek(0, io.SEEK_END)
    reader.seek(0)
    position = 0
    while head := reader.read(_HEAD.size):
        length = _HEAD.unpack(head)[0] if len(head) == _HEAD.size else size
        end = position + _HEAD.size + length + _TAIL_BYTES
        if end > size:
            raise CorruptDataError.of(
                f"{name} is no TFRecord file, or is cut short: the record at byte {position} does not fit",
                hint="check the file at its origin",
            )
        data = reader.read(length)
        reader.seek(_TAIL_BYTES, io.SEEK_CUR)
        position = end
        yield data
