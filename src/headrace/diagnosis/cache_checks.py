"""The check that a disk is a good place for a cache. Pure: it decides by facts alone."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.diagnosis.cache_facts import CacheFacts
from headrace.diagnosis.findings import Finding, fault, good, note
from headrace.settings.sizes import format_size

_LITTLE_BYTES = 1 << 30
_SLOW_BYTES_PER_S = 100e6
_OF_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "9p", "glusterfs", "afs"})
_OF_MEMORY = frozenset({"tmpfs", "ramfs"})


def check(facts: CacheFacts) -> Iterator[Finding]:
    """Kind, room and speed."""
    yield _kind(facts)
    yield _room(facts)
    yield _speed(facts)


def _kind(facts: CacheFacts) -> Finding:
    name, kind = f"cache {facts.folder}", facts.file_system
    if kind in _OF_NETWORK or kind.startswith("fuse"):
        text = f"{kind}: a cache on storage of the network saves nothing"
        return fault(name, text, "name a folder on a local disk: --cache /ssd/headrace:100Gi")
    if kind == "overlay":
        text = "overlay: the kernel cannot read cache files there by itself, and a container's end takes them away"
        return note(name, text, "give the container a volume of a local disk")
    if kind in _OF_MEMORY:
        return note(
            name,
            f"{kind}: the cache takes memory, and a restart empties it",
            "say so by its word: FOLDER:8Gi:MEM",
        )
    return good(name, kind)


def _room(facts: CacheFacts) -> Finding:
    name = f"room of {facts.folder}"
    text = f"{format_size(facts.free_bytes)} of {format_size(facts.size_bytes)} are free"
    if facts.free_bytes < _LITTLE_BYTES:
        return fault(name, f"{text}: too little for a cache", "make room, or name a folder of another disk")
    return good(name, text)


def _speed(facts: CacheFacts) -> Finding:
    name = f"speed of {facts.folder}"
    if facts.write_bytes_per_s is None:
        text = f"{facts.probed} takes no files: {facts.fault}"
        return fault(name, text, "give this user the folder, or name another one")
    text = f"takes {format_size(int(facts.write_bytes_per_s))}/s, a megabyte at a time and each on the disk"
    if facts.write_bytes_per_s < _SLOW_BYTES_PER_S:
        return note(name, f"{text}: a storage may be faster than this disk", "use an SSD of this machine")
    return good(name, text)
