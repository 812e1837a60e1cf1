"""Maps without a descriptor, as C programs keep them."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

PAGE = 4096

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class LoneMap:
    """A map whose descriptor is closed; `mmap.mmap` would keep a copy of it."""

    def __init__(self, path: Path, flags: int) -> None:
        self.size_bytes = path.stat().st_size
        descriptor = os.open(path, os.O_RDONLY)
        self.address = libc.mmap(None, self.size_bytes, mmap.PROT_READ, flags, descriptor, 0)
        os.close(descriptor)
        assert self.address != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
        assert ctypes.string_at(self.address, PAGE)

    def wrong_pages(self, expected: bytes) -> int:
        found = ctypes.string_at(self.address, self.size_bytes)
        return sum(
            found[at : at + PAGE] != expected[at : at + PAGE] for at in range(0, self.size_bytes, PAGE)
        )

    def close(self) -> None:
        libc.munmap(self.address, self.size_bytes)


class Maps:
    """A shared and a private map of each file, and what must be in them."""

    def __init__(self) -> None:
        self.made: list[tuple[LoneMap, bytes]] = []

    def add(self, path: Path, expected: bytes) -> None:
        self.made += [(LoneMap(path, flags), expected) for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE)]

    def wrong_pages(self) -> list[int]:
        return [made.wrong_pages(expected) for made, expected in self.made]

    def must_be_right(self) -> None:
        assert self.wrong_pages() == [0] * len(self.made)

    def close(self) -> None:
        for made, _ in self.made:
            made.close()
