"""A program that keeps maps without a descriptor, makes more, and compares every byte, until it is told to stop.

Its maps are read by a system call, which answers EFAULT for a page that cannot be had where a look would be SIGBUS.
Such a page is a failure too, unless the file has changed at the origin meanwhile: then nobody has its old bytes.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import mmap
import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path

from lone_maps import PAGE, libc

MOST_MAPS = 16
MIB = 1 << 20


def size_of(name: str) -> int:
    """Three to five MiB, and not a whole number of pages."""
    return 3 * MIB + random.Random(name).randrange(2 * MIB)


@functools.lru_cache(maxsize=24)
def content(seed: int, name: str, version: int) -> bytes:
    """What a version of a file has in it."""
    return random.Random(f"{seed} {name} {version}").randbytes(size_of(name))


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def peek(address: int, length: int) -> bytes | None:
    """Bytes of our own memory; `None` where some of them cannot be had."""
    buffer = ctypes.create_string_buffer(length)
    here = _Vector(ctypes.addressof(buffer), length)
    there = _Vector(address, length)
    count = libc.process_vm_readv(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if count < 0 and ctypes.get_errno() != errno.EFAULT:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    return buffer.raw if count == length else None


@dataclass
class KeptMap:
    """A map of one version of a file."""

    name: str
    address: int
    size_bytes: int
    version: int
    flags: int

    def describe(self, offset: int) -> str:
        kind = "shared" if self.flags == mmap.MAP_SHARED else "private"
        return f"{kind} map of {self.name}, version {self.version}, at {offset}"


class Keeper:
    def __init__(self, mountpoint: Path, versions: Path, seed: int, chance: random.Random) -> None:
        self.mountpoint = mountpoint
        self.versions = versions
        self.seed = seed
        self.chance = chance
        self.maps: list[KeptMap] = []
        self.compared_bytes = 0

    def newest(self, name: str) -> int:
        """The newest version that the origin may have."""
        return int(json.loads(self.versions.read_text())[name])

    def step(self) -> None:
        choice = self.chance.random()
        if choice < 0.4 or not self.maps:
            self.add()
        elif choice < 0.7:
            self.compare(self.chance.choice(self.maps))
        elif choice < 0.9:
            self.read(self.chance.choice(self.names()))
        elif len(self.maps) > MOST_MAPS // 2:
            self.drop(self.maps.pop(self.chance.randrange(len(self.maps))))

    def names(self) -> list[str]:
        return sorted(json.loads(self.versions.read_text()))

    def add(self) -> None:
        if len(self.maps) == MOST_MAPS:
            self.drop(self.maps.pop(0))
        name, flags = (
            self.chance.choice(self.names()),
            self.chance.choice((mmap.MAP_SHARED, mmap.MAP_PRIVATE)),
        )
        oldest = self.newest(name)
        descriptor = os.open(self.mountpoint / name, os.O_RDONLY)
        size_bytes = os.fstat(descriptor).st_size
        address = libc.mmap(None, size_bytes, mmap.PROT_READ, flags, descriptor, 0)
        os.close(descriptor)
        assert address != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
        made = KeptMap(name, address, size_bytes, -1, flags)
        first = peek(address, PAGE)
        if first is None:
            self.drop(made)
            assert self.newest(name) > 0, f"the first page of {name} cannot be had, and it never changed"
            return
        made.version = self.version_of(name, first)
        assert made.version <= self.newest(name)
        assert size_bytes == size_of(name), f"{name} has {size_bytes} bytes; the origin was at {oldest}"
        self.maps.append(made)

    def version_of(self, name: str, first: bytes) -> int:
        for version in range(self.newest(name), -1, -1):
            if content(self.seed, name, version)[: len(first)] == first:
                return version
        raise AssertionError(f"{name} begins with {first[:16].hex()}, which no version of it does")

    def compare(self, kept: KeptMap) -> None:
        expected = content(self.seed, kept.name, kept.version)
        for offset in range(0, kept.size_bytes, MIB):
            length = min(MIB, kept.size_bytes - offset)
            found = peek(kept.address + offset, length)
            if found != expected[offset : offset + length]:
                self.compare_pages(kept, expected, offset, length)
            self.compared_bytes += length

    def compare_pages(self, kept: KeptMap, expected: bytes, begin: int, length: int) -> None:
        for offset in range(begin, begin + length, PAGE):
            count = min(PAGE, kept.size_bytes - offset)
            found = peek(kept.address + offset, count)
            if found is None:
                changed = self.newest(kept.name) > kept.version
                assert changed, f"{kept.describe(offset)}: the page cannot be had, and the file is the same"
                continue
            what = "zeros" if found == bytes(count) else found[:16].hex()
            assert found == expected[offset : offset + count], f"{kept.describe(offset)}: wrong bytes: {what}"

    def read(self, name: str) -> None:
        before = self.newest(name)
        try:
            found = (self.mountpoint / name).read_bytes()
        except OSError as error:
            # It changed while it was read, or is to be listed anew.
            assert error.errno == errno.ESTALE, error
            assert self.newest(name) > 0, f"{name} never changed"
            return
        version = self.version_of(name, found[:PAGE])
        assert found == content(self.seed, name, version), f"{name}: wrong bytes; the origin was at {before}"
        self.compared_bytes += len(found)

    def drop(self, kept: KeptMap) -> None:
        libc.munmap(kept.address, kept.size_bytes)

    def finish(self) -> None:
        """Compares all once more."""
        for kept in self.maps:
            self.compare(kept)


def main(mountpoint: str, versions: str, stop: str, progress: str, seed: str, number: str) -> None:
    keeper = Keeper(Path(mountpoint), Path(versions), int(seed), random.Random(f"{seed} {number}"))
    steps = 0
    while steps == 0 or not os.path.exists(stop):
        keeper.step()
        steps += 1
        Path(progress).write_text(f"{steps:20d}")
    keeper.finish()
    sys.stdout.write(str(keeper.compared_bytes))


if __name__ == "__main__":
    main(*sys.argv[1:])
